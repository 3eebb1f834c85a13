#include "attune/lib/view.h"

#include <fmt/format.h>

#include <algorithm>
#include <bitset>
#include <cstdint>

namespace attune {
namespace {

std::size_t at(int axis) { return static_cast<std::size_t>(axis); }

// One axis of the source that a reshape spreads over several, or several that it merges: walks both shapes from the
// last axis and gives each target axis its stride. Returns false where the elements do not stand evenly.
bool spread_strides(const Shape& from, const Strides& strides, const Shape& to, Strides& result) {
  int source = from.rank() - 1, target = to.rank() - 1;
  while (target >= 0) {
    while (source >= 0 && from[source] == 1) --source;
    if (source < 0 || to[target] == 1) {
      result[at(target)] = 1;
      --target;
      continue;
    }
    Index merged = from[source], spread = to[target];
    const Index step = strides[at(source)];
    int first_target = target;
    result[at(target)] = step;
    while (merged != spread) {
      if (spread < merged) {
        if (--first_target < 0) return false;
        result[at(first_target)] = spread * step;
        spread *= to[first_target];
      } else {
        if (--source < 0) return false;
        if (from[source] != 1 && strides[at(source)] != merged * step) return false;
        merged *= from[source];
      }
    }
    target = first_target - 1;
    --source;
  }
  return true;
}

// `target` with its -1 replaced by what makes the counts agree.
Shape complete(const Shape& from, std::span<const Index> target) {
  Shape result;
  int open = -1;
  for (Index size : target) {
    if (size == -1) {
      check(open < 0, "reshape: more than one size is -1");
      open = result.rank();
      result.append(1);
    } else {
      check(size >= 0, "reshape: a size of {} is negative", size);
      result.append(size);
    }
  }
  if (open >= 0) {
    const Index known = result.count();
    check(known > 0 && from.count() % known == 0, "reshape: {} has {} elements, which {} does not divide", from,
          from.count(), known);
    result[open] = from.count() / known;
  }
  check(result.count() == from.count(), "reshape: {} has {} elements, {} has {}", from, from.count(), result,
        result.count());
  return result;
}

Index resolve(Index index, Index size, const char* op, const Shape& shape) {
  const Index named = index < 0 ? index + size : index;
  check(named >= 0 && named < size, "{}: index {} is outside of size {} of {}", op, index, size, shape);
  return named;
}

double number(const void* data, DType type, Index offset) {
  return visit(type, [&]<class T>() -> double {
    const T element = static_cast<const T*>(data)[offset];
    if constexpr (std::is_same_v<T, dual>) return element.value;
    else return static_cast<double>(element);
  });
}

}  // namespace

Strides contiguous_strides(const Shape& shape) {
  Strides strides{};
  Index step = 1;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    strides[at(axis)] = step;
    // Only a shape without elements leaves Index, [0, 2^62, 2^62]: nothing is ever read by its strides.
    if (__builtin_mul_overflow(step, std::max<Index>(shape[axis], 1), &step)) return {};
  }
  return strides;
}

namespace detail {

Index Layout::slice(int named, Index begin, Index end, Index step) {
  const int axis = shape.axis(named, "slice");
  const Index size = shape[axis];
  const Index first = begin < 0 ? begin + size : begin, last = end < 0 ? end + size : end;
  check(step >= 1, "slice: a step of {} is below 1", step);
  check(0 <= first && first <= last && last <= size, "slice: {} to {} is not inside axis {} of {}", begin, end, axis,
        shape);
  const Index offset = first * strides[at(axis)];
  shape[axis] = (last - first) / step + ((last - first) % step != 0);
  if (shape[axis] > 1) strides[at(axis)] *= step;
  return shape[axis] > 0 ? offset : 0;
}

Index Layout::select(int named, Index index) {
  const int axis = shape.axis(named, "select");
  const Index offset = resolve(index, shape[axis], "select", shape) * strides[at(axis)];
  Shape kept;
  for (int from = 0; from < shape.rank(); ++from) {
    if (from == axis) continue;
    strides[at(kept.rank())] = strides[at(from)];
    kept.append(shape[from]);
  }
  shape = kept;
  return offset;
}

void Layout::transpose() {
  const int rank = shape.rank();
  check(rank >= 2, "t: {} has no two axes to swap", shape);
  std::swap(shape[rank - 1], shape[rank - 2]);
  std::swap(strides[at(rank - 1)], strides[at(rank - 2)]);
}

void Layout::permute(const AxisList& order) {
  const Layout before = *this;
  const int rank = shape.rank();
  std::bitset<kMaxRank> seen;
  bool is_permutation = static_cast<int>(order.size()) == rank;
  for (std::size_t to = 0; is_permutation && to < order.size(); ++to) {
    const int from = order[to] < 0 ? order[to] + rank : order[to];
    is_permutation = from >= 0 && from < rank && !seen[at(from)];
    if (!is_permutation) break;
    seen.set(at(from));
    shape[static_cast<int>(to)] = before.shape[from];
    strides[to] = before.strides[at(from)];
  }
  if (!is_permutation)
    check(false, "permute: {} does not name each axis of {} once", fmt::format("({})", fmt::join(order.begin(), order.end(), ", ")),
          before.shape);
}

void Layout::reshape(std::span<const Index> sizes) {
  const Shape target = complete(shape, sizes);
  if (is_contiguous()) {
    strides = contiguous_strides(target);
  } else {
    Strides spread{};
    if (!spread_strides(shape, strides, target, spread))
      check(false, "reshape: {} with strides [{}] is no view of {}: copy it with contiguous() first", shape,
            fmt::format("{}", fmt::join(strides.begin(), strides.begin() + shape.rank(), ", ")), target);
    strides = spread;
  }
  shape = target;
}

void Layout::expand(const Shape& target) {
  check(broadcasts_to(shape, target), "expand: {} does not stretch to {}", shape, target);
  Strides stretched{};
  const int missing = target.rank() - shape.rank();
  for (int axis = missing; axis < target.rank(); ++axis) {
    const int from = axis - missing;
    stretched[at(axis)] = shape[from] == target[axis] ? strides[at(from)] : 0;
  }
  shape = target;
  strides = stretched;
}

double read(const void* data, const Layout& layout, std::initializer_list<Index> index) {
  check(static_cast<int>(index.size()) == layout.shape.rank(), "at: {} indices for {}", index.size(), layout.shape);
  Index offset = 0;
  int axis = 0;
  for (Index i : index) {
    offset += resolve(i, layout.shape[axis], "at", layout.shape) * layout.strides[at(axis)];
    ++axis;
  }
  return number(data, layout.dtype, offset);
}

double read_only(const void* data, const Layout& layout) {
  check(layout.shape.count() == 1, "item: {} has {} elements, not one", layout.shape, layout.shape.count());
  return number(data, layout.dtype, 0);
}

}  // namespace detail

namespace {

// The bytes that a view touches: [begin, end).
struct Extent {
  std::uintptr_t begin, end;
};

Extent extent(const ConstView& v) {
  const auto start = reinterpret_cast<std::uintptr_t>(v.data());
  Index low = 0, high = 0;
  for (int axis = 0; axis < v.rank(); ++axis) {
    const Index reach = (v.shape()[axis] - 1) * v.strides()[static_cast<std::size_t>(axis)];
    (reach < 0 ? low : high) += reach;
  }
  const Index size = size_of(v.dtype());
  return {start + static_cast<std::uintptr_t>(low * size),
          start + static_cast<std::uintptr_t>((high + 1) * size)};
}

// Whether two views lie in different columns of one buffer whose rows are `pitch` bytes long: then they are
// disjoint although their extents cross, as the query and key parts of one projection are.
bool in_other_columns(const ConstView& a, const ConstView& b, Index pitch) {
  if (pitch <= 0) return false;
  const auto width = [pitch](const ConstView& v) {
    Index reach = size_of(v.dtype());
    for (int axis = 0; axis < v.rank(); ++axis) {
      const Index step = v.stride(axis) * size_of(v.dtype());
      if (step % pitch != 0) reach += (v.shape()[axis] - 1) * (step < 0 ? pitch : step);
    }
    return reach;
  };
  const auto start_a = reinterpret_cast<std::intptr_t>(a.data()),
             start_b = reinterpret_cast<std::intptr_t>(b.data());
  const Index from_a_to_b = ((start_b - start_a) % pitch + pitch) % pitch;
  return from_a_to_b >= width(a) && from_a_to_b + width(b) <= pitch;
}

}  // namespace

bool overlap(const ConstView& a, const ConstView& b) {
  if (a.count() == 0 || b.count() == 0) return false;
  const Extent in_a = extent(a), in_b = extent(b);
  if (in_a.end <= in_b.begin || in_b.end <= in_a.begin) return false;
  for (const ConstView* v : {&a, &b})
    for (int axis = 0; axis < v->rank(); ++axis)
      if (in_other_columns(a, b, v->stride(axis) * size_of(v->dtype()))) return false;
  return true;
}

}  // namespace attune
