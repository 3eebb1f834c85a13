// How exact softmax, layer norm, cross-entropy and attention are in f32, forward and backward, on ordinary rows, long
// ones and nasty ones.
//
//   accuracy                  prints the table
//   accuracy --write FILE     writes the inputs, for another framework (bench/peers)
//   accuracy --peer FILE      prints the table, and beside it what the other made of them
//
// What f32 gives is compared with f64 on the same f32 inputs. A result y of inputs x cannot be held to more than its
// condition number, to first order
//
//   c_i = |y_i| + sum_j |dy_i/dx_j| |x_j|
//
// which, times u = 2^-24, is how far y_i moves when it and every input is rounded once. Inputs are x and, backward, dy.
// The table has
//
//   condition   max c / max |y|: how many times larger an error of the inputs arrives
//   digits      -log10(max |error| / max |y|)
//   error/c     max_i |error_i| / (u c_i): up to 1, the exact result of inputs that are off by no more than a rounding
//
// and, with a peer, the same of its results, and the digits that its f64 shares with ours. In one-hot rows a
// probability that is 1 but for 1e-11 is 1 in f32, here and there: what hangs on the difference is lost, whatever the
// inputs' worth. f32 kernels flush what is below 2^-126 to zero. So every magnitude above, and every weight of
// attention, is |a| + 2^-102, which u makes 2^-126.
#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "attune/attune.h"
#include "attune/lib/safetensors.h"
#include "digits.h"

using namespace attune;

namespace {

constexpr double kUnit = 0x1p-24;

double magnitude(double x) { return std::abs(x) + 0x1p-102; }

struct Result {
  std::string name;
  Tensor f32, f64, condition;
};

// An op on some rows: what goes into it, and what comes out.
struct Case {
  std::string op, rows;
  std::vector<NamedTensor> inputs;
  std::vector<Result> results = {};

  std::string path(const std::string& name) const { return op + "/" + rows + "/" + name; }
  const Tensor& input(std::string_view name) const {
    for (const NamedTensor& each : inputs)
      if (each.name == name) return each.tensor;
    throw std::logic_error("no such input");
  }
};

Tensor made(const Shape& shape, const std::function<double(Index)>& number) {
  Tensor x(shape);
  for (Index i = 0; i < x.count(); ++i) x.data<float>()[static_cast<std::size_t>(i)] = static_cast<float>(number(i));
  return x;
}

// ---- Ops on rows

using Op = std::function<Var(Var)>;

Op op_of(const Case& c) {
  if (c.op == "softmax") return [](Var x) { return softmax(x); };
  if (c.op == "layer_norm") return [](Var x) { return layer_norm(x); };
  return [&c](Var x) { return cross_entropy(x, c.input("targets"), {.reduction = Reduction::none}); };
}

// y = f(x), and dx, the gradient of sum(dy y).
std::vector<Tensor> computed(const Op& f, const Tensor& x, const Tensor& dy) {
  Tape tape;
  const Var input = variable(x);
  const Var y = f(input);
  tape.backward(y, dy);
  std::vector<Tensor> results;
  results.push_back(Tensor::copy_of(y.value()));
  results.push_back(Tensor::copy_of(input.grad()));
  return results;
}

// Rows do not know of one another, so one pass of forward mode moves the same column of all of them. Backward has both
// inputs: the Hessian of sum(dy y) moves x, the Jacobian itself moves dy.
std::vector<Tensor> conditions(const Op& f, const Tensor& x, const Tensor& dy, const std::vector<Tensor>& exact) {
  const Index rows = x.size(0), width = x.size(1), results = dy.count() / rows;
  std::vector<Tensor> c;
  for (const Tensor& y : exact) {
    c.emplace_back(y.shape(), f64);
    for (std::size_t i = 0; i < c.back().data<double>().size(); ++i)
      c.back().data<double>()[i] = magnitude(y.data<double>()[i]);
  }
  const auto at = [](Tensor& t, Index i) -> double& { return t.data<double>()[static_cast<std::size_t>(i)]; };
  const Tensor wide_x = x.to(f64), wide_dy = dy.to(f64);
  const auto of = [](const Tensor& t, Index i) { return t.data<double>()[static_cast<std::size_t>(i)]; };
  for (Index column = 0; column < width; ++column) {
    Tensor moved(x.shape(), f64);
    for (Index r = 0; r < rows; ++r) at(moved, r * width + column) = 1;
    const Tensor jacobian = jvp(f, x, moved).tangent;
    const HessianProduct h = hvp([&](Var v) { return sum(f(v) * dy); }, x, moved);
    for (Index r = 0; r < rows; ++r) {
      const double by = magnitude(of(wide_x, r * width + column));
      for (Index i = r * results; i < (r + 1) * results; ++i) {
        at(c[0], i) += std::abs(of(jacobian, i)) * by;
        at(c[1], r * width + column) += std::abs(of(jacobian, i)) * magnitude(of(wide_dy, i));
      }
      for (Index i = r * width; i < (r + 1) * width; ++i) at(c[1], i) += std::abs(of(h.product[0], i)) * by;
    }
  }
  return c;
}

void compute_rows(Case& c) {
  const Op f = op_of(c);
  const Tensor& x = c.input("x");
  const Tensor dy = c.op == "cross_entropy" ? ones({x.size(0)}) : c.input("dy").clone();
  std::vector<Tensor> single = computed(f, x, dy), exact = computed(f, x.to(f64), dy.to(f64));
  std::vector<Tensor> condition = conditions(f, x, dy, exact);
  const char* const names[] = {"y", "dx"};
  for (std::size_t i = 0; i < 2; ++i)
    c.results.push_back({names[i], std::move(single[i]), std::move(exact[i]), std::move(condition[i])});
}

Case row_case(const std::string& op, const std::string& kind, Index rows, Index width,
              const std::function<double(Rng&, Index)>& number) {
  Rng rng = Rng(1).split(kind);
  Case c{op, kind, {}};
  c.inputs.push_back({"x", made({rows, width}, [&](Index i) { return number(rng, i % width); })});
  if (op == "cross_entropy") {
    Tensor targets({rows}, i32);  // column 0 is the one that stands out
    for (auto& target : targets.data<std::int32_t>())
      target = kind == "one-hot" ? 0 : static_cast<std::int32_t>(rng.below(width));
    c.inputs.push_back({"targets", std::move(targets)});
  } else {
    c.inputs.push_back({"dy", made({rows, width}, [&](Index) { return rng.normal(); })});
  }
  return c;
}

double ordinary(Rng& r, Index) { return 2 * r.normal(); }
double offset(Rng& r, Index) { return 1e4 + r.normal(); }
double spread(Rng& r, Index) { return r.normal() * std::pow(10, -3 + 5 * r.uniform()); }
double one_hot(Rng& r, Index column) { return r.normal() + (column == 0 ? 30 : 0); }
double nearly_equal(Rng& r, Index) { return 1 + static_cast<double>(r.below(8)) * 0x1p-23; }
double tiny(Rng& r, Index) { return 1e-39 * r.normal(); }

void add_row_cases(std::vector<Case>& cases, const std::string& op) {
  cases.push_back(row_case(op, "ordinary", 256, 256, ordinary));
  cases.push_back(row_case(op, "long", 4, 4096, ordinary));
  cases.push_back(row_case(op, "offset", 64, 256, offset));
  cases.push_back(row_case(op, "spread", 64, 256, spread));
  cases.push_back(row_case(op, "one-hot", 64, 256, one_hot));
  cases.push_back(row_case(op, "nearly equal", 64, 256, nearly_equal));
  cases.push_back(row_case(op, "tiny", 64, 256, tiny));
}

// ---- Attention

constexpr const char* kAttention[] = {"y", "dq", "dk", "dv"};

std::vector<Tensor> attended(const Case& c, DType dtype) {
  const Tensor q = c.input("q").to(dtype), k = c.input("k").to(dtype), v = c.input("v").to(dtype);
  const Tensor dy = c.input("dy").to(dtype);
  Tape tape;
  const Var asked = variable(q), keys = variable(k), values = variable(v);
  const Var y = attention(asked, keys, values, {.mask = c.rows == "causal" ? Mask::causal() : Mask()});
  tape.backward(y, dy);
  std::vector<Tensor> results;
  results.push_back(Tensor::copy_of(y.value()));
  for (const Var& input : {asked, keys, values}) results.push_back(Tensor::copy_of(input.grad()));
  return results;
}

// One head: q [L, d], k [S, d], v [S, d], dy [L, d], and the condition numbers of what comes out.
struct Head {
  Index queries, keys, width;
  const double *q, *k, *v, *dy;
  bool causal;
  double *y, *dq, *dk, *dv;

  // The same sum, of products and of their magnitudes.
  struct Sum {
    double value = 0, magnitudes = 0;
  };
  Sum dot(const double* a, const double* b) const {
    Sum sum;
    for (Index i = 0; i < width; ++i) sum.value += a[i] * b[i], sum.magnitudes += magnitude(a[i]) * magnitude(b[i]);
    return sum;
  }
  Index seen(Index i) const { return causal ? i + 1 + keys - queries : keys; }

  // Adds the terms of query i. Where sums of magnitudes stand for |dy/dx| |x|, this is a little more than the formula
  // at the top (a triangle inequality at every op): with s = scale q·k, S = scale |q|·|k|,
  //
  //   p = softmax(s)      moves by p e,    e = 2 (S + p·S)
  //   y = p v             moves by         sum p |v| + 2 sum p |v - y| S
  //   dp = dy·v           moves by a,      a = 2 |dy|·|v|
  //   ds = p (dp - p·dp)  moves by         b = p (|dp - p·dp| e + a + sum p (|dp - p·dp| e + a))
  //   dq = scale ds k     moves by         scale sum (b + |ds|) |k|     (dk by the same, of q)
  //   dv = p dy           moves by         sum p |dy| (1 + e)
  void add(Index i) {
    const Index n = seen(i);
    const double scale = 1 / std::sqrt(static_cast<double>(width));
    const auto size = static_cast<std::size_t>(n);
    std::vector<double> p(size), e(size), a(size), dp(size), mean(static_cast<std::size_t>(width));
    const double *q_i = q + i * width, *dy_i = dy + i * width;
    double most = -INFINITY, total = 0, mean_e = 0, mean_dp = 0, mean_a = 0, mean_b = 0;
    for (std::size_t j = 0; j < size; ++j) {
      const Sum s = dot(q_i, key(j)), d = dot(dy_i, value(j));
      p[j] = scale * s.value, e[j] = 2 * scale * s.magnitudes, dp[j] = d.value, a[j] = 2 * d.magnitudes;
      most = std::max(most, p[j]);
    }
    for (double& each : p) total += each = std::exp(each - most);
    for (std::size_t j = 0; j < size; ++j) {
      p[j] /= total;
      mean_e += p[j] * e[j], mean_dp += p[j] * dp[j], mean_a += p[j] * a[j];
      for (Index c = 0; c < width; ++c) mean[static_cast<std::size_t>(c)] += p[j] * value(j)[c];
    }
    for (double& each : p) each = magnitude(each);
    for (std::size_t j = 0; j < size; ++j) mean_b += p[j] * std::abs(dp[j] - mean_dp) * (e[j] + mean_e);
    for (std::size_t j = 0; j < size; ++j) {
      const double share = std::abs(dp[j] - mean_dp), ds = p[j] * share;
      const double b = p[j] * (share * (e[j] + mean_e) + a[j] + mean_b + mean_a);
      for (Index c = 0; c < width; ++c) {
        y[i * width + c] +=
            p[j] * (magnitude(value(j)[c]) + std::abs(value(j)[c] - mean[static_cast<std::size_t>(c)]) * e[j]);
        dq[i * width + c] += scale * (b + ds) * magnitude(key(j)[c]);
        dk[static_cast<Index>(j) * width + c] += scale * (b + ds) * magnitude(q_i[c]);
        dv[static_cast<Index>(j) * width + c] += p[j] * magnitude(dy_i[c]) * (1 + e[j] + mean_e);
      }
    }
  }
  const double* key(std::size_t j) const { return k + static_cast<Index>(j) * width; }
  const double* value(std::size_t j) const { return v + static_cast<Index>(j) * width; }
};

void compute_attention(Case& c) {
  std::vector<Tensor> single = attended(c, f32), exact = attended(c, f64), condition;
  for (const Tensor& y : exact) {
    condition.emplace_back(y.shape(), f64);
    for (std::size_t i = 0; i < condition.back().data<double>().size(); ++i)
      condition.back().data<double>()[i] = magnitude(y.data<double>()[i]);
  }
  const Tensor q = c.input("q").to(f64), k = c.input("k").to(f64), v = c.input("v").to(f64), dy = c.input("dy").to(f64);
  const Index heads = q.size(0), queries = q.size(1), keys = k.size(1), width = q.size(2);
  for (Index h = 0; h < heads; ++h) {
    const Index of_queries = h * queries * width, of_keys = h * keys * width;
    const auto in = [](const Tensor& t, Index at) { return t.data<double>().data() + at; };
    const auto out = [&](std::size_t i, Index at) { return condition[i].data<double>().data() + at; };
    Head head{queries,
              keys,
              width,
              in(q, of_queries),
              in(k, of_keys),
              in(v, of_keys),
              in(dy, of_queries),
              c.rows == "causal",
              out(0, of_queries),
              out(1, of_queries),
              out(2, of_keys),
              out(3, of_keys)};
    for (Index i = 0; i < queries; ++i) head.add(i);
  }
  for (std::size_t i = 0; i < 4; ++i)
    c.results.push_back({kAttention[i], std::move(single[i]), std::move(exact[i]), std::move(condition[i])});
}

struct AttentionKind {
  const char* rows;
  Index heads, queries, keys, width;
  double (*q)(Rng&, Index);
  double (*k)(Rng&, Index);
  double (*v)(Rng&, Index);
};

double normal(Rng& r, Index) { return r.normal(); }
double far(Rng& r, Index) { return 100 + r.normal(); }
double large(Rng& r, Index) { return 12 * r.normal(); }

const AttentionKind kAttentionKinds[] = {
    {"ordinary", 16, 64, 64, 32, normal, normal, normal},
    {"causal", 4, 256, 256, 32, normal, normal, normal},
    {"long", 1, 128, 4096, 64, normal, normal, normal},
    {"offset", 16, 64, 64, 32, normal, far, far},  // keys and values that share most of what they are
    {"spread", 16, 64, 64, 32, normal, normal, spread},
    {"one-hot", 16, 64, 64, 32, large, large, normal},  // saturated
    {"nearly equal", 16, 64, 64, 32, normal, nearly_equal, nearly_equal},
    {"tiny", 16, 64, 64, 32, tiny, tiny, normal},
};

Case attention_case(const AttentionKind& kind) {
  Rng rng = Rng(2).split(kind.rows);
  Case c{"attention", kind.rows, {}};
  const auto add = [&](const char* name, Index rows, double (*number)(Rng&, Index)) {
    c.inputs.push_back({name, made({kind.heads, rows, kind.width}, [&](Index i) { return number(rng, i); })});
  };
  add("q", kind.queries, kind.q);
  add("k", kind.keys, kind.k);
  add("v", kind.keys, kind.v);
  add("dy", kind.queries, normal);
  if (c.rows == "causal") {
    Tensor allowed({kind.queries, kind.keys}, i32);
    for (Index i = 0; i < kind.queries; ++i)
      for (Index j = 0; j <= i; ++j) allowed.set({i, j}, 1);
    c.inputs.push_back({"allowed", std::move(allowed)});
  }
  return c;
}

// ---- The table

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const char* op : {"softmax", "layer_norm", "cross_entropy"}) add_row_cases(cases, op);
  for (const AttentionKind& kind : kAttentionKinds) cases.push_back(attention_case(kind));
  return cases;
}

void write_inputs(const std::vector<Case>& cases, const char* path) {
  std::vector<NamedView> views;
  for (const Case& c : cases)
    for (const NamedTensor& input : c.inputs) views.push_back({c.path(input.name), input.tensor});
  write_safetensors(path, std::move(views));
}

// max |a_i - b_i| / (unit c_i)
double over_condition(const ConstView& a, const ConstView& b, const Tensor& c, double unit) {
  const Tensor x = values_of(a), y = values_of(b);
  double most = 0;
  for (std::size_t i = 0; i < y.data<double>().size(); ++i) {
    const double error = std::abs(x.data<double>()[i] - y.data<double>()[i]) / (unit * c.data<double>()[i]);
    if (!(error <= most)) most = error;
  }
  return most;
}

double largest(const Tensor& x) {
  double most = 0;
  for (const double number : x.data<double>()) most = std::max(most, std::abs(number));
  return most;
}

const Tensor& found(const SafetensorsFile& file, const std::string& name, const Shape& shape) {
  const Tensor* const tensor = file.find(name);
  check(tensor && tensor->shape() == shape, "the peer's file has no {} of {}", name, shape);
  return *tensor;
}

class Table {
 public:
  explicit Table(const SafetensorsFile* peer) : peer_(peer) {
    fmt::print("{:<14}{:<14}{:<4}{:>10}{:>9}{:>9}{}\n", "", "rows", "", "condition", "digits", "error/c",
               peer_ ? "  its digits  error/c  both in f64" : "");
  }

  void print(const Case& c) {
    for (const Result& r : c.results) {
      const double over = over_condition(r.f32, r.f64, r.condition, kUnit);
      const double condition = largest(r.condition) / largest(r.f64);
      fmt::print("{:<14}{:<14}{:<4}{:>10.2g}{:>9.2f}{:>9}", c.op, c.rows, r.name, condition,
                 bench::distance(r.f32, r.f64).digits(), text(over));
      ours_.count(over);
      if (peer_) print_peer(c, r);
      fmt::print("\n");
    }
    std::fflush(stdout);
  }

  void print_end() const {
    fmt::print("\nerror/c is at most 2 in {} of {} results", ours_.small, ours_.all);
    if (peer_) fmt::print("; the peer's in {}", theirs_.small);
    fmt::print(".\n");
  }

 private:
  void print_peer(const Case& c, const Result& r) {
    const Tensor& theirs = found(*peer_, c.path(r.name), r.f32.shape());
    const double over = over_condition(theirs, r.f64, r.condition, kUnit);
    fmt::print("{:>12.2f}{:>9}", bench::distance(theirs, r.f64).digits(), text(over));
    theirs_.count(over);
    const Tensor& exact = found(*peer_, c.path(r.name) + "/f64", r.f64.shape());
    fmt::print("{:>13.1f}", bench::distance(exact, r.f64).digits());
  }

  static std::string text(double over) {
    return over < 1000 ? fmt::format("{:.2f}", over) : fmt::format("{:.0e}", over);
  }

  struct Tally {
    int small = 0, all = 0;
    void count(double over) { ++all, small += over <= 2; }
  };
  const SafetensorsFile* peer_;
  Tally ours_, theirs_;
};

void print_table(std::vector<Case> cases, const SafetensorsFile* peer) {
  Table table(peer);
  for (Case& c : cases) {
    if (c.op == "attention")
      compute_attention(c);
    else
      compute_rows(c);
    table.print(c);
    c.results.clear();
  }
  table.print_end();
}

}  // namespace

int main(int count, char** words) try {
  const std::string_view option = count > 1 ? words[1] : "";
  if (count != 1 && (count != 3 || (option != "--write" && option != "--peer"))) {
    fmt::print(stderr, "usage: accuracy [--write FILE | --peer FILE]\n");
    return 2;
  }
  if (option == "--write") return write_inputs(all_cases(), words[2]), 0;
  SafetensorsFile peer;
  if (option == "--peer") peer = read_safetensors(words[2]);
  print_table(all_cases(), option == "--peer" ? &peer : nullptr);
} catch (const std::exception& error) {
  fmt::print(stderr, "accuracy: {}\n", error.what());
  return 1;
}
