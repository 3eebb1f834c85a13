// Every kernel body, and the row of the table that they make. A new kernel is a line here and one in table.h.
#include "attune/lib/kernels/body/math.inl"
#include "attune/lib/kernels/body/map.inl"
#include "attune/lib/kernels/body/reduce.inl"
#include "attune/lib/kernels/body/softmax.inl"
#include "attune/lib/kernels/body/layer_norm.inl"
#include "attune/lib/kernels/body/cross_entropy.inl"
#include "attune/lib/kernels/body/embedding.inl"
#include "attune/lib/kernels/body/dropout.inl"
#include "attune/lib/kernels/body/adamw.inl"
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
  t.softmax[type] = softmax<T>;
  t.softmax_backward[type] = softmax_backward<T>;
  t.layer_norm[type] = layer_norm<T>;
  t.layer_norm_backward[type] = layer_norm_backward<T>;
  t.cross_entropy[type] = cross_entropy<T>;
  t.cross_entropy_backward[type] = cross_entropy_backward<T>;
  t.embedding[type] = embedding<T>;
  t.embedding_backward[type] = embedding_backward<T>;
  t.dropout_factors[type] = dropout_factors<T>;
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
  gemm_of<float>(t, 0);
  gemm_of<double>(t, 1);
  gemm_of<dual>(t, 2);
  attention_of<float>(t, 0);
  attention_of<double>(t, 1);
  attention_of<dual>(t, 2);
  row_kernels_of<float>(t, 0);
  row_kernels_of<double>(t, 1);
  row_kernels_of<dual>(t, 2);
  t.adamw[0] = adamw<float>;
  t.adamw[1] = adamw<double>;
  return t;
}
