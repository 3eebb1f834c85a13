// Tensors as text: fmt::print("{}", tensor) shows what a person can read, much as NumPy does.
//
//   [[   1.00,    0.25,   -3.00],
//    [   0.00, 1000.50,     nan]]
//
// One row a line, columns of one width, and no more decimals than the numbers need: none where all are
// integers, four significant ones at most, exponents where a number would vanish otherwise. Above a thousand
// elements, each axis shows three at either end. A format is that of one element: {:.2f}, {:+.3e}. Type and
// shape are not part of it: describe(tensor) tells them.
#pragma once

#include <fmt/core.h>

#include <string>

#include "attune/lib/tensor.h"

namespace attune {

// "f32 [2, 3]".
std::string describe(const ConstView& view);

// What the formatters below print. `format` is an element's, without the colon; empty chooses one that suits
// them all.
std::string to_text(const ConstView& view, std::string_view format = {});

}  // namespace attune

template <class Pointer>
struct fmt::formatter<attune::BasicView<Pointer>> {
  // Lets the format of a double tell whether this one is right, and keeps it.
  constexpr auto parse(fmt::format_parse_context& context) {
    const auto begin = context.begin();
    const auto end = fmt::formatter<double>().parse(context);
    format_ = {begin, static_cast<std::size_t>(end - begin)};
    return end;
  }
  template <class Context>
  auto format(const attune::ConstView& view, Context& context) const {
    return fmt::format_to(context.out(), "{}", attune::to_text(view, format_));
  }

 private:
  std::string_view format_;
};

template <>
struct fmt::formatter<attune::Tensor> : fmt::formatter<attune::ConstView> {};
