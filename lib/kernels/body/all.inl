// Every kernel body, and the row of the table that they make. A new kernel is a line here and one in table.h.
#include "attune/lib/kernels/body/math.inl"
#include "attune/lib/kernels/body/map.inl"
#include "attune/lib/kernels/body/reduce.inl"
#include "attune/lib/kernels/body/extremes.inl"
#include "attune/lib/kernels/body/cumsum.inl"
#include "attune/lib/kernels/body/softmax.inl"
#include "attune/lib/kernels/body/log_softmax.inl"
#include "attune/lib/kernels/body/layer_norm.inl"
#include "attune/lib/kernels/body/rms_norm.inl"
#include "attune/lib/kernels/body/cross_entropy.inl"
#include "attune/lib/kernels/body/losses.inl"
#include "attune/lib/kernels/body/embedding.inl"
#include "attune/lib/kernels/body/dropout.inl"
#include "attune/lib/kernels/body/optimizer_steps.inl"
#include "attune/lib/kernels/body/gemm.inl"
#include "attune/lib/kernels/body/attention.inl"

template <class F>
constexpr void each_type(Bodies& bodies) {
  bodies[0] = map<F, float>;
  bodies[1] = map<F, double>;
  bodies[2] = map<F, dual>;
}

template <class T>
constexpr void gemm_of(Table& t, int type) {
  t.gemm[type] = gemm<T>;
  t.gemm_pack[type] = gemm_pack<T>;
  t.gemm_tile[type] = {Tile<T>::kRows, kTileColumns<T>};
}

template <class T>
constexpr void attention_of(Table& t, int type) {
  t.attention[type] = attention<T>;
  t.attention_weights[type] = attention_weights<T>;
  t.attention_backward[type] = attention_backward<T>;
  t.attention_backward_queries[type] = attention_backward_queries<T>;
  t.attention_backward_keys[type] = attention_backward_keys<T>;
}

template <class T>
constexpr void row_kernels_of(Table& t, int type) {
  t.sum_last[type] = sum_last<T>;
  t.sum_first[type] = sum_first<T>;
  t.fold[type] = fold<T>;
  t.squares[type] = squares<T>;
  t.max[type] = extreme<Largest, T>;
  t.min[type] = extreme<Smallest, T>;
  t.extreme_backward[type] = extreme_backward<T>;
  t.argmax[type] = arg_extreme<Largest, T>;
  t.argmin[type] = arg_extreme<Smallest, T>;
  t.cumsum[type] = cumsum<T>;
  t.softmax[type] = softmax<T>;
  t.softmax_backward[type] = softmax_backward<T>;
  t.logsumexp[type] = logsumexp<T>;
  t.logsumexp_backward[type] = logsumexp_backward<T>;
  t.log_softmax[type] = log_softmax<T>;
  t.log_softmax_backward[type] = log_softmax_backward<T>;
  t.layer_norm[type] = layer_norm<T>;
  t.layer_norm_backward[type] = layer_norm_backward<T>;
  t.rms_norm[type] = rms_norm<T>;
  t.rms_norm_backward[type] = rms_norm_backward<T>;
  t.cross_entropy[type] = cross_entropy<Logits, T>;
  t.cross_entropy_backward[type] = cross_entropy_backward<Logits, T>;
  t.nll[type] = cross_entropy<LogProbabilities, T>;
  t.nll_backward[type] = cross_entropy_backward<LogProbabilities, T>;
  t.embedding[type] = embedding<T>;
  t.embedding_backward[type] = embedding_backward<T>;
  t.dropout_factors[type] = dropout_factors<T>;
}

template <class T>
constexpr void step_kernels_of(Table& t, int type) {
  t.sgd[type] = optimizer_step<Sgd, T>;
  t.sgd_momentum[type] = optimizer_step<SgdMomentum, T>;
  t.adam[type] = optimizer_step<Adam, T>;
  t.lion[type] = optimizer_step<Lion, T>;
}

constexpr Table make_table(const char* name) {
  Table t{};
  t.name = name;
  each_type<Copy>(t.copy);
  each_type<Scale>(t.scale);
  each_type<Add>(t.add);
  each_type<Subtract>(t.subtract);
  each_type<Multiply>(t.multiply);
  each_type<Divide>(t.divide);
  each_type<DivideBackward>(t.divide_backward);
  each_type<Exp>(t.exp);
  each_type<Log>(t.log);
  each_type<Erf>(t.erf);
  each_type<Sin>(t.sin);
  each_type<Cos>(t.cos);
  each_type<Tanh>(t.tanh);
  each_type<SquareRoot>(t.square_root);
  each_type<Gelu>(t.gelu);
  each_type<GeluBackward>(t.gelu_backward);
  each_type<Log1p>(t.log1p);
  each_type<Expm1>(t.expm1);
  each_type<Sigmoid>(t.sigmoid);
  each_type<SigmoidBackward>(t.sigmoid_backward);
  each_type<Softplus>(t.softplus);
  each_type<Swish>(t.swish);
  each_type<SwishBackward>(t.swish_backward);
  each_type<Power>(t.power);
  each_type<PowerBackward>(t.power_backward);
  each_type<PowerExponentBackward>(t.power_exponent_backward);
  each_type<Relu>(t.relu);
  each_type<LeakyRelu>(t.leaky_relu);
  each_type<Absolute>(t.absolute);
  each_type<Sign>(t.sign);
  each_type<Clamp>(t.clamp);
  each_type<ClampBackward>(t.clamp_backward);
  each_type<WherePositive>(t.where_positive);
  each_type<Maximum>(t.maximum);
  each_type<Minimum>(t.minimum);
  each_type<MaximumBackward>(t.maximum_backward);
  each_type<Divergence>(t.divergence);
  each_type<DivergenceBackward>(t.divergence_backward);
  each_type<BinaryEntropy>(t.binary_entropy);
  each_type<BinaryEntropyBackward>(t.binary_entropy_backward);
  gemm_of<float>(t, 0);
  gemm_of<double>(t, 1);
  gemm_of<dual>(t, 2);
  attention_of<float>(t, 0);
  attention_of<double>(t, 1);
  attention_of<dual>(t, 2);
  row_kernels_of<float>(t, 0);
  row_kernels_of<double>(t, 1);
  row_kernels_of<dual>(t, 2);
  step_kernels_of<float>(t, 0);
  step_kernels_of<double>(t, 1);
  return t;
}
