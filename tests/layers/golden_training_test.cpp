// Optimizers and schedules against files that another implementation computed, to the last digits of f64.
#include "../support/golden.h"

#include <memory>

#include "attune/layers/optim.h"

using namespace attune;
using attune::golden::File;

namespace {

struct Pair {
  Parameter a, b;
  void each(auto&& visit) { visit("a", a), visit("b", b); }
};

std::unique_ptr<Optimizer> make_optimizer(Pair& model, const File& file) {
  const double lr = file.number("lr"), clip = file.number("clip"), clip_epsilon = file.number("clip_eps");
  const std::string rule = file.text("rule");
  if (rule == "sgd")
    return std::make_unique<Sgd>(model, SgdOptions{.lr = lr,
                                                   .momentum = file.number("momentum"),
                                                   .nesterov = file.text("nesterov") == "true",
                                                   .clip = clip,
                                                   .clip_epsilon = clip_epsilon});
  const double beta1 = file.number("beta1"), beta2 = file.number("beta2"), epsilon = file.number("adam_eps");
  if (rule == "adam")
    return std::make_unique<Adam>(
        model, AdamOptions{.lr = lr, .beta1 = beta1, .beta2 = beta2, .epsilon = epsilon, .clip = clip,
                           .clip_epsilon = clip_epsilon});
  REQUIRE(rule == "adamw");
  REQUIRE(file.text("decayed") == "a");  // the matrix
  return std::make_unique<AdamW>(
      model, AdamWOptions{.lr = lr, .beta1 = beta1, .beta2 = beta2, .epsilon = epsilon,
                          .decay = file.number("weight_decay"), .clip = clip, .clip_epsilon = clip_epsilon});
}

WarmupCosine cosine(const File& file) {
  return {.lr = file.number("lr"),
          .min_lr = file.number("min_lr"),
          .warmup = static_cast<Index>(file.number("warmup")),
          .total = static_cast<Index>(file.number("total"))};
}

void compare_optimizer(const File& file) {
  Pair model{Parameter(file["param.a"]), Parameter(file["param.b"])};
  const auto optimizer = make_optimizer(model, file);
  const auto steps = static_cast<Index>(file.number("steps"));
  Tensor a(file["out.a"].shape(), f64), b(file["out.b"].shape(), f64), norm({steps}, f64), lr({steps}, f64);
  for (Index step = 0; step < steps; ++step) {
    kernels::copy(model.a.mutable_grad(), file["in.gradient.a"].view().select(0, step));
    kernels::copy(model.b.mutable_grad(), file["in.gradient.b"].view().select(0, step));
    if (!file.text("schedule").empty()) optimizer->set_lr(cosine(file)(step));
    optimizer->step();
    kernels::copy(a.view().select(0, step), model.a.value());
    kernels::copy(b.view().select(0, step), model.b.value());
    norm.set({step}, optimizer->grad_norm());
    lr.set({step}, optimizer->lr());
  }
  file.compare("out.a", a);
  file.compare("out.b", b);
  file.compare("out.norm", norm);
  file.compare("out.lr", lr);
}

template <class Schedule>
void compare_schedule(const File& file, const Schedule& schedule) {
  Tensor lr(file["out.lr"].shape(), f64);
  for (Index step = 0; step < lr.count(); ++step) lr.set({step}, schedule(step));
  file.compare("out.lr", lr);
}

// The names of all files that begin so.
std::vector<std::string> files(const std::string& start) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(golden::folder()))
    if (entry.path().filename().native().starts_with(start)) names.push_back(entry.path().stem());
  return names;
}

}  // namespace

TEST_CASE("golden: every optimizer, with and without clipping, and with a schedule") {
  if (!golden::available()) return;
  const auto names = files("optim_");
  CHECK(names.size() >= 16);
  for (const std::string& name : names) compare_optimizer(File(name));
}

TEST_CASE("golden: every schedule") {
  if (!golden::available()) return;
  for (const std::string& name : files("schedule_")) {
    const File file(name);
    if (file.text("schedule") == "warmup_cosine") {
      compare_schedule(file, cosine(file));
    } else {
      REQUIRE(file.text("schedule") == "noam");
      compare_schedule(file, InverseSquareRoot{.factor = file.number("factor"),
                                               .width = static_cast<Index>(file.number("width")),
                                               .warmup = static_cast<Index>(file.number("warmup"))});
    }
  }
}
