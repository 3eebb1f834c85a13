// Attention, a block of kAttentionQueries queries and a block of kAttentionKeys keys at a time (FlashAttention-2, Dao
// 2023): the scores of a pair of blocks live in the cache, and of a row only its maximum and its sum are kept.
//
// Scores lie transposed, [key][query], so that sixteen queries are the lanes of a vector: the maximum and the sum over
// keys are then vertical, and all products run through gemm's tiles on operands as they lie. Blocks of keys start at
// multiples of kAttentionKeys, whatever L and S are, and what is hidden adds +0 to every sum: so the result of a query
// depends on the keys that it sees, and on nothing else.

inline constexpr Index kQueries = kAttentionQueries;

// Where one pair of (batch entry, head) is. A batch entry is counted over the axes before the heads.
struct AttentionPlace {
  Index entry, head, at[kAttentionBatchRank];

  INLINE AttentionPlace(const AttentionArguments& a, Index batch_entry, Index of_head)
      : entry(batch_entry), head(of_head) {
    for (int axis = a.batch_rank - 1; axis >= 0; batch_entry /= a.batch_sizes[axis--])
      at[axis] = batch_entry % a.batch_sizes[axis];
  }
  template <class T>
  INLINE T* of(const AttentionArguments& a, const AttentionOperand& operand, Index operand_head) const {
    Index offset = operand_head * operand.head;
    for (int axis = 0; axis < a.batch_rank; ++axis) offset += at[axis] * operand.batch[axis];
    return operand.data ? static_cast<T*>(operand.data) + offset : nullptr;
  }
};

// Keys begin ... end - 1: what a block of queries sees of them, as far as distance and length say.
struct KeyRange {
  Index begin, end;
};
INLINE Index first_key(const AttentionArguments& a, Index query) { return larger(query + a.first, 0); }
INLINE Index end_key(const AttentionArguments& a, Index query, Index length) {
  return larger(smaller(query + a.last + 1, length), 0);
}

// Of each row r, columns r + low ... r + high are all that counts: what distance leaves of a block.
struct Band {
  Index low = -kEverything, high = kEverything;
  static constexpr Index kEverything = Index{1} << 50;
};

// Element (i, j) stands at data[i * row + j * column].
template <class T>
struct Block {
  T* data;
  Index row, column = 1;
};

// A product that goes through gemm's tiles: c = scale * a b, or c += scale * a b, columns of b and c side by side. What
// lies outside of the band `sums` of a adds 0 to a sum, and is left out where that is cheap; what lies outside of the
// band `results` of c may be left as it is. Where an operand holds infinities or NaNs, `seen` (laid out as a) tells
// which steps count: the others have weight 0, but 0 times infinity is not 0.
template <class T>
struct BlockProduct {
  Block<T> c;
  Block<const T> a, b;
  Index rows, columns, depth;
  T scale;
  bool add;
  Band sums = {}, results = {};
  const T* seen = nullptr;
};

template <class T>
__attribute__((noinline)) void multiply_seen(const BlockProduct<T>& p) {
  using V = Vec<T>;
  for (Index i = 0; i < p.rows; ++i)
    each_vector(p.columns, [&](Index j, int n) {
      V total = zero<V>();
      for (Index k = 0; k < p.depth; ++k) {
        const Index at = i * p.a.row + k * p.a.column;
        if (value_of(p.seen[at]) == 0) continue;
        total = fma(V::all(p.a.data[at]), load_lanes(p.b.data + k * p.b.row + j, n), total);
      }
      T* to = p.c.data + i * p.c.row + j;
      total = scaled(total, p.scale);
      store_lanes<T>(to, n, p.add ? load_lanes<T>(to, n) + total : total);
    });
}

template <class T>
__attribute__((noinline)) void multiply_blocks(const BlockProduct<T>& p) {
  if (p.seen) return multiply_seen(p);
  TileJob<T> job;
  job.a_row = p.a.row;
  job.a_step = p.a.column;
  job.b_step = p.b.row;
  job.c_row = p.c.row;
  job.scale = p.scale;
  job.next_step = job.next_round = 0;
  const Index panel = pieces(p.rows, pieces(p.rows, Tile<T>::kRows));
  for (Index i = 0; i < p.rows; i += panel) {
    const Index rows = smaller(panel, p.rows - i), last_row = i + rows - 1;
    const Index first_step = larger(i + p.sums.low, 0), end_step = smaller(last_row + p.sums.high + 1, p.depth);
    const Index first_column = larger(i + p.results.low, 0) / kLanes * kLanes;
    const Index end_column = smaller(pieces(last_row + p.results.high + 1, kLanes) * kLanes, p.columns);
    Index k = first_step;
    do {  // the same blocks of k as gemm's
      job.depth = larger(smaller(kGemmDepth, end_step - k), 0);
      job.add = p.add || k > first_step;
      job.a = p.a.data + i * p.a.row + k * p.a.column;
      for (Index j = first_column; j < end_column; j += kTileColumns<T>) {
        job.b = job.next = p.b.data + k * p.b.row + j;
        job.c = p.c.data + i * p.c.row + j;
        run_tile(job, rows, smaller(kTileColumns<T>, end_column - j), 1);
      }
    } while ((k += kGemmDepth) < end_step);
  }
}

template <class V> INLINE V only_values(V v) { return v; }
template <class V> INLINE V only_values(Dual<V> v) { return v.value; }

// Whether all numbers of a matrix are finite. Of duals, the values.
template <class T>
__attribute__((noinline)) bool all_finite(const T* p, Index row, Index rows, Index columns) {
  using V = decltype(only_values(Vec<T>{}));
  V zeros = zero<V>();  // a zero of either sign, or NaN
  for (Index i = 0; i < rows; ++i, p += row)
    each_vector(columns, [&](Index j, int n) { zeros = zeros | only_values(load_lanes(p + j, n)) * zero<V>(); });
  return !any(!(zeros == zero<V>()));
}

// The memory that a thread works in. Rows of blocks are kQueries long.
template <class T>
struct AttentionMemory {
  T *scores, *slopes, *addend, *caps, *factors, *seen;  // [kAttentionKeys][kQueries]
  T *queries, *upstream;                                // q and dy, transposed: [d], [dv]
  T* sums;                                              // [kQueries][d or dv]: of y, then of dq
  T *maxima, *totals, *rescale, *dots;                  // [kQueries]

  INLINE explicit AttentionMemory(const AttentionArguments& a) {
    T** const blocks[] = {&scores, &slopes, &addend, &caps, &factors, &seen};
    T** const rows[] = {&maxima, &totals, &rescale, &dots};
    T* next = static_cast<T*>(a.memory);
    for (T** block : blocks) {
      *block = next;
      next += kAttentionKeys * kQueries;
    }
    for (T** row : rows) {
      *row = next;
      next += kQueries;
    }
    queries = next;
    upstream = queries + a.width * kQueries;
    sums = upstream + a.value_width * kQueries;
  }
};

// A pair of blocks: queries i ... i + rows - 1 of a place, of which `lanes` (whole vectors) are computed, and keys
// j ... j + keys - 1, of which a query may see some.
template <class T>
struct BlockPair {
  const AttentionArguments& a;
  const AttentionMemory<T>& m;
  AttentionPlace place;
  Index key_head, length;
  Index i = 0, rows = 0, lanes = 0, j = 0, keys = 0;
  bool hides = false;  // whether some query of the block does not see some key of it
  int finite_queries = -1;  // not known yet
  // What distance leaves, with keys as rows and queries as columns, and the other way round.
  Band by_key, by_query;

  INLINE BlockPair(const AttentionArguments& arguments, const AttentionMemory<T>& memory, Index entry, Index head)
      : a(arguments),
        m(memory),
        place(arguments, entry, head),
        key_head(head / (arguments.heads / arguments.key_heads)),
        length(arguments.lengths ? arguments.lengths[entry] : arguments.keys) {}

  INLINE T* row_of(const AttentionOperand& operand, Index head, Index row) const {
    T* start = place.of<T>(a, operand, head);
    return start ? start + row * operand.row : nullptr;
  }
  INLINE Index row_number() const { return (place.entry * a.heads + place.head) * a.queries + i; }

  // Goes to a block of queries, whose q is transposed: lanes beyond the last row are 0.
  INLINE void take_queries(Index first) {
    i = first;
    rows = smaller(kQueries, a.queries - i);
    lanes = pieces(rows, kLanes) * kLanes;
    finite_queries = -1;
    transpose(m.queries, row_of(a.q, place.head, i), a.q.row, a.width);
  }
  // Rows that fill no vector go by way of a buffer, together with rows of zeros.
  __attribute__((noinline)) void transpose(T* to, const T* from, Index row, Index width) const {
    const Index whole = rows / kLanes * kLanes;
    copy_matrix(to, kQueries, from, 1, row, width, whole);
    if (rows == whole) return;
    from += whole * row;
    if (kLanes * width > kAttentionKeys * kQueries) {
      for (Index c = 0; c < width; ++c) clear(to + c * kQueries + whole, kLanes);
      return copy_matrix(to + whole, kQueries, from, 1, row, width, rows - whole);
    }
    clear(m.slopes, kLanes * width);
    copy_matrix(m.slopes, width, from, row, 1, rows - whole, width);
    copy_matrix(to + whole, kQueries, m.slopes, 1, width, width, kLanes);
  }
  INLINE KeyRange seen_keys() const { return {first_key(a, i), end_key(a, i + rows - 1, length)}; }
  // Goes to the keys of the block at `block` that are in range. Returns whether there are any.
  INLINE bool take_keys(Index block, KeyRange range) {
    j = larger(block, range.begin);
    keys = smaller(block + kAttentionKeys, range.end) - j;
    hides = first_key(a, i + rows - 1) > j || end_key(a, i, length) < j + keys;
    by_key = {j - i - a.last, j - i - a.first};
    by_query = {i - j + a.first, i - j + a.last};
    return keys > 0;
  }

  // scores = scale q·k, then the softcap, the bias and the masks: -inf is what hides.
  INLINE void compute_scores(bool wants_caps) {
    const bool hides_by_distance = hides;
    multiply_blocks<T>({.c = {m.scores, kQueries},
                        .a = {row_of(a.k, key_head, j), a.k.row},
                        .b = {m.queries, kQueries},
                        .rows = keys, .columns = lanes, .depth = a.width,
                        .scale = scale_of(m.scores, a.scale),
                        .add = false,
                        .results = by_key});  // sᵀ = scale k qᵀ
    if (a.softcap > 0) cap_scores(wants_caps);
    if (a.bias.data || a.allow.data) add_bias();
    if (hides_by_distance) hide_by_distance();
  }

  // s becomes c tanh(s / c), whose derivative is 1 - tanh².
  __attribute__((noinline)) void cap_scores(bool wants_caps) const {
    using V = Vec<T>;
    const V cap = constant<V>(a.softcap), inverse = constant<V>(1 / a.softcap), one = constant<V>(1);
    for (Index t = 0; t < keys; ++t)
      for (Index lane = 0; lane < lanes; lane += kLanes) {
        T* at = m.scores + t * kQueries + lane;
        const V x = tanh(V::load(at) * inverse);
        (cap * x).store(at);
        if (wants_caps) fma(zero<V>() - x, x, one).store(m.caps + t * kQueries + lane);
      }
  }

  // What is added to the scores of the block: the bias, and -inf where it is not allowed to look.
  __attribute__((noinline)) void make_addend() const {
    if (!a.bias.data || rows < lanes) clear(m.addend, keys * kQueries);
    if (a.bias.data)
      copy_matrix(m.addend, kQueries, row_of(a.bias, place.head, i) + j * a.bias.column, a.bias.column, a.bias.row,
                  keys, rows);
    if (!a.allow.data) return;
    const std::int32_t* allowed =
        place.of<const std::int32_t>(a, a.allow, place.head) + i * a.allow.row + j * a.allow.column;
    const T hidden = scale_of(m.addend, -__builtin_inf());
    for (Index row = 0; row < rows; ++row)
      for (Index t = 0; t < keys; ++t)
        if (allowed[row * a.allow.row + t * a.allow.column] == 0) m.addend[t * kQueries + row] = hidden;
  }
  __attribute__((noinline)) void add_bias() {
    using V = Vec<T>;
    make_addend();
    const V none = constant<V>(-__builtin_inf());
    for (Index t = 0; t < keys; ++t)
      for (Index lane = 0; lane < lanes; lane += kLanes) {
        T* at = m.scores + t * kQueries + lane;
        const V addend = V::load(m.addend + t * kQueries + lane);
        const auto hidden = addend == none;
        hides |= any(hidden);
        select(hidden, none, V::load(at) + addend).store(at);
      }
  }

  // The keys of the block that some query of the vector at `lane` sees, by distance.
  INLINE KeyRange seen_by(Index lane) const {
    return {smaller(larger(first_key(a, i + lane) - j, 0), keys),
            smaller(larger(end_key(a, i + lane + kLanes - 1, length) - j, 0), keys)};
  }
  // Of these, those that other queries of the vector do not see.
  __attribute__((noinline)) void hide_by_distance() const {
    using V = Vec<T>;
    const V none = constant<V>(-__builtin_inf());
    T count[kLanes];
    for (Index n = 0; n < kLanes; ++n) count[n] = scale_of(count, static_cast<double>(n));
    const auto near = [](Index distance) { return static_cast<double>(smaller(larger(distance, -1000), 1000)); };
    for (Index lane = 0; lane < lanes; lane += kLanes) {
      const KeyRange seen = seen_by(lane);
      const V first = V::load(count) + constant<V>(near(i + lane + a.first - j)),
              last = V::load(count) + constant<V>(near(i + lane + a.last - j));
      const auto hide = [&](Index begin, Index end) {
        for (Index t = begin; t < end; ++t) {
          const V key = constant<V>(static_cast<double>(t));
          T* at = m.scores + t * kQueries + lane;
          select((first <= key) & (key <= last), V::load(at), none).store(at);
        }
      };
      const Index all_begun = first_key(a, i + lane + kLanes - 1) - j, one_ends = end_key(a, i + lane, length) - j;
      hide(seen.begin, smaller(all_begun, seen.end));
      hide(larger(larger(one_ends, all_begun), seen.begin), seen.end);
    }
  }

  // Whether q and dy of the block are finite.
  INLINE bool has_finite_queries() {
    if (finite_queries < 0)
      finite_queries = all_finite(m.queries, kQueries, a.width, lanes) &&
                       all_finite(m.upstream, kQueries, a.value_width, lanes);
    return finite_queries;
  }

  // 1 where a query sees a key, 0 where not, from the scores: only needed where an operand has infinities or NaNs.
  __attribute__((noinline)) const T* mark_seen() const {
    using V = Vec<T>;
    const V none = constant<V>(-__builtin_inf());
    clear(m.seen, keys * kQueries);
    for (Index lane = 0; lane < lanes; lane += kLanes)
      for (Index t = seen_by(lane).begin; t < seen_by(lane).end; ++t)
        select(V::load(m.scores + t * kQueries + lane) == none, zero<V>(), constant<V>(1))
            .store(m.seen + t * kQueries + lane);
    return m.seen;
  }
  // Zeros where no query of the vector at `lane` sees a key.
  INLINE void clear_unseen(T* block, Index lane, KeyRange seen) const {
    for (Index t = 0; t < seen.begin; ++t) zero<Vec<T>>().store(block + t * kQueries + lane);
    for (Index t = larger(seen.end, seen.begin); t < keys; ++t) zero<Vec<T>>().store(block + t * kQueries + lane);
  }
  // Whether all keys (or values) of the block are finite that some query does not see.
  INLINE bool has_finite_hidden(const T* rows_of_keys, Index row, Index width) const {
    // By distance alone, and where no key comes too early, those are the last.
    const bool only_last = !a.bias.data && !a.allow.data && first_key(a, i + rows - 1) <= j;
    const Index from = only_last ? larger(end_key(a, i, length) - j, 0) : 0;
    return all_finite(rows_of_keys + from * row, row, keys - from, width);
  }

  // Dropout's factors of the block's weights. Weight (b, h, i, j) is element ((b H + h) L + i) S + j of the stream.
  __attribute__((noinline)) void take_factors() const {
    if (rows < lanes || hides) clear(m.factors, keys * kQueries);
    for (Index row = 0; row < rows; ++row) {
      const Index begin = larger(first_key(a, i + row) - j, 0), end = smaller(end_key(a, i + row, length) - j, keys);
      if (begin < end)
        draw_factors<T>(a.dropout, (row_number() + row) * a.keys + j + begin, end - begin,
                        m.factors + begin * kQueries + row, kQueries);
    }
  }

  // Weights from scores, by what forward left of each row: exp(s - maximum) / sum. Lanes that see nothing have sum 0.
  INLINE void load_statistics() const {
    using V = Vec<T>;
    const T *maxima = static_cast<const T*>(a.maxima) + row_number(),
            *totals = static_cast<const T*>(a.totals) + row_number();
    for (Index lane = 0; lane < lanes; lane += kLanes) {
      const int n = lanes_at(lane, rows);
      const V most = load_lanes(maxima + lane, n), total = load_lanes(totals + lane, n);
      select(most == constant<V>(-__builtin_inf()), zero<V>(), most).store(m.maxima + lane);
      select(total == zero<V>(), zero<V>(), constant<V>(1) / total).store(m.totals + lane);
    }
  }
};

// -- Forward. An item is a block of queries of a head.

// exp(s - maximum so far) in place of the scores. What came before is worth `rescale` of what it was; returns whether
// that is less than 1 anywhere.
template <class T>
__attribute__((noinline)) bool exponentiate(const BlockPair<T>& pair) {
  using V = Vec<T>;
  const AttentionMemory<T>& m = pair.m;
  bool rescales = false;
  for (Index lane = 0; lane < pair.lanes; lane += kLanes) {
    T* const scores = m.scores + lane;
    const V before = V::load(m.maxima + lane);
    const KeyRange seen = pair.seen_by(lane);
    V most = before;
    for (Index t = seen.begin; t < seen.end; ++t) {
      const V s = V::load(scores + t * kQueries);
      most = select(most < s, s, most);  // a NaN is passed over: the sum brings it in
    }
    const V shift = select(most == constant<V>(-__builtin_inf()), zero<V>(), most);
    const V factor = exp(before - shift);
    V total = zero<V>();
    for (Index t = seen.begin; t < seen.end; ++t) {
      const V e = exp(V::load(scores + t * kQueries) - shift);
      e.store(scores + t * kQueries);
      total = total + e;
    }
    pair.clear_unseen(m.scores, lane, seen);
    most.store(m.maxima + lane);
    factor.store(m.rescale + lane);
    fma(V::load(m.totals + lane), factor, total).store(m.totals + lane);
    rescales |= any(!(factor == constant<V>(1)));
  }
  return rescales;
}

// Each row of a matrix times a number.
template <class T>
__attribute__((noinline)) void scale_rows(T* matrix, Index rows, Index width, const T* factors) {
  using V = Vec<T>;
  for (Index row = 0; row < rows; ++row, matrix += width) {
    const V factor = V::all(factors[row]);
    each_vector(width, [&](Index c, int n) { store_lanes<T>(matrix + c, n, load_lanes<T>(matrix + c, n) * factor); });
  }
}

template <class T>
__attribute__((noinline)) void multiply_by_factors(const BlockPair<T>& pair, T* block) {
  using V = Vec<T>;
  for (Index t = 0; t < pair.keys; ++t)
    for (Index lane = 0; lane < pair.lanes; lane += kLanes) {
      const Index at = t * kQueries + lane;
      (V::load(block + at) * V::load(pair.m.factors + at)).store(block + at);
    }
}

// The sink takes its part of each row that sees something; what is kept of the rows, and y = sums / total.
template <class T>
__attribute__((noinline)) void finish_queries(const BlockPair<T>& pair) {
  using V = Vec<T>;
  const AttentionArguments& a = pair.a;
  const AttentionMemory<T>& m = pair.m;
  for (Index lane = 0; lane < pair.lanes; lane += kLanes) {
    V most = V::load(m.maxima + lane), total = V::load(m.totals + lane), factor = constant<V>(1);
    const auto sees_nothing = total == zero<V>();
    if (a.sinks) {
      const V sink = V::all(static_cast<const T*>(a.sinks)[pair.place.head * a.sink_stride]), before = most;
      most = select(before < sink, sink, before);
      factor = exp(before - most);
      total = fma(total, factor, exp(sink - most));
      most = select(sees_nothing, constant<V>(-__builtin_inf()), most);
      total = select(sees_nothing, zero<V>(), total);
    }
    const int n = lanes_at(lane, pair.rows);
    store_lanes<T>(static_cast<T*>(a.maxima) + pair.row_number() + lane, n, most);
    store_lanes<T>(static_cast<T*>(a.totals) + pair.row_number() + lane, n, total);
    select(sees_nothing, zero<V>(), factor / total).store(m.rescale + lane);
  }
  // Adding +0 leaves no trace of the sign of a zero, which hidden keys might have turned.
  T* y = pair.row_of(a.y, pair.place.head, pair.i);
  for (Index row = 0; row < pair.rows; ++row, y += a.y.row) {
    const T* sums = m.sums + row * a.value_width;
    const V factor = V::all(m.rescale[row]);
    each_vector(a.value_width,
                [&](Index c, int n) { store_lanes<T>(y + c, n, load_lanes(sums + c, n) * factor + zero<V>()); });
  }
}

template <class T>
void attend_queries(BlockPair<T>& pair) {
  const AttentionArguments& a = pair.a;
  const AttentionMemory<T>& m = pair.m;
  for (Index lane = 0; lane < kQueries; lane += kLanes) constant<Vec<T>>(-__builtin_inf()).store(m.maxima + lane);
  clear(m.totals, kQueries);
  bool started = false;
  const KeyRange range = pair.seen_keys();
  for (Index block = range.begin / kAttentionKeys * kAttentionKeys; block < range.end; block += kAttentionKeys) {
    if (!pair.take_keys(block, range)) continue;
    pair.compute_scores(false);
    const T* v = pair.row_of(a.v, pair.key_head, pair.j);
    const T* seen = pair.hides && !pair.has_finite_hidden(v, a.v.row, a.value_width) ? pair.mark_seen() : nullptr;
    if (exponentiate(pair) && started) scale_rows(m.sums, pair.rows, a.value_width, m.rescale);
    if (a.drops) {
      pair.take_factors();
      multiply_by_factors(pair, m.scores);
    }
    multiply_blocks<T>({.c = {m.sums, a.value_width},
                        .a = {m.scores, 1, kQueries},
                        .b = {v, a.v.row},
                        .rows = pair.rows, .columns = a.value_width, .depth = pair.keys,
                        .scale = scale_of(m.sums, 1),
                        .add = started,
                        .sums = pair.by_query,
                        .seen = seen});  // sums += p v
    started = true;
  }
  if (!started) clear(m.sums, pair.rows * a.value_width);
  finish_queries(pair);
}

INLINE Index query_blocks(const AttentionArguments& a) { return pieces(a.queries, kQueries); }

// The last queries, which may see most, go first.
template <class T>
void attention(const void* arguments, Index begin, Index end) {
  const auto& a = *static_cast<const AttentionArguments*>(arguments);
  const AttentionMemory<T> memory(a);
  const Index blocks = query_blocks(a);
  for (Index item = begin; item < end; ++item) {
    const Index of_head = item / blocks;
    BlockPair<T> pair(a, memory, of_head / a.heads, of_head % a.heads);
    pair.take_queries((blocks - 1 - item % blocks) * kQueries);
    attend_queries(pair);
  }
}

// The weights themselves, [..., L, S]: y is their place, and zero before. An item is as above.
template <class T>
void attention_weights(const void* arguments, Index begin, Index end) {
  using V = Vec<T>;
  const auto& a = *static_cast<const AttentionArguments*>(arguments);
  const AttentionMemory<T> m(a);
  const Index blocks = query_blocks(a);
  for (Index item = begin; item < end; ++item) {
    const Index of_head = item / blocks;
    BlockPair<T> pair(a, m, of_head / a.heads, of_head % a.heads);
    pair.take_queries(item % blocks * kQueries);
    pair.load_statistics();
    T* y = pair.row_of(a.y, pair.place.head, pair.i);
    const KeyRange range = pair.seen_keys();
    for (Index block = range.begin / kAttentionKeys * kAttentionKeys; block < range.end; block += kAttentionKeys) {
      if (!pair.take_keys(block, range)) continue;
      pair.compute_scores(false);
      for (Index lane = 0; lane < pair.lanes; lane += kLanes) {
        const KeyRange seen = pair.seen_by(lane);
        for (Index t = seen.begin; t < seen.end; ++t) {
          T* at = m.scores + t * kQueries + lane;
          const V s = V::load(at), p = exp(s - V::load(m.maxima + lane)) * V::load(m.totals + lane);
          select(s == constant<V>(-__builtin_inf()), zero<V>(), p).store(at);
        }
        pair.clear_unseen(m.scores, lane, seen);
      }
      copy_matrix(y + pair.j, a.y.row, m.scores, 1, kQueries, pair.rows, pair.keys);
    }
  }
}

// -- Backward. With p the weights, D = dy·y of a row, and dp = dy vᵀ: ds = p (dp - D), and from there
// dq = scale ds k, dk = scale dsᵀ q, dv = pᵀ dy. Dropout multiplies p in dv, and dp, by its factors.

// D of each row of the block, for the pass over keys to find it, too. It is summed as dp is, so that dp - D is exactly
// 0 where a query sees a single key.
template <class T>
__attribute__((noinline)) void row_dots(const BlockPair<T>& pair) {
  using V = Vec<T>;
  const AttentionArguments& a = pair.a;
  const AttentionMemory<T>& m = pair.m;
  pair.transpose(m.sums, pair.row_of(a.y, pair.place.head, pair.i), a.y.row, a.value_width);
  T* kept = static_cast<T*>(a.dots) + pair.row_number();
  for (Index lane = 0; lane < pair.lanes; lane += kLanes) {
    V total = zero<V>();
    for (Index start = 0; start < a.value_width; start += kGemmDepth) {
      V part = zero<V>();
      for (Index c = start; c < smaller(start + kGemmDepth, a.value_width); ++c)
        part = fma(V::load(m.sums + c * kQueries + lane), V::load(m.upstream + c * kQueries + lane), part);
      total = start == 0 ? part : total + part;
    }
    total.store(m.dots + lane);
    store_lanes<T>(kept + lane, lanes_at(lane, pair.rows), total);
  }
}

// dsink of each row: -p_sink D, with p_sink = exp(sink - maximum) / sum.
template <class T>
__attribute__((noinline)) void sink_slopes(const BlockPair<T>& pair) {
  using V = Vec<T>;
  const AttentionArguments& a = pair.a;
  const V sink = V::all(static_cast<const T*>(a.sinks)[pair.place.head * a.sink_stride]);
  T* to = static_cast<T*>(a.dsinks) + pair.row_number();
  for (Index lane = 0; lane < pair.lanes; lane += kLanes) {
    const V inverse = V::load(pair.m.totals + lane), p = exp(sink - V::load(pair.m.maxima + lane)) * inverse;
    const V slope = zero<V>() - p * V::load(pair.m.dots + lane);
    store_lanes<T>(to + lane, lanes_at(lane, pair.rows), select(inverse == zero<V>(), zero<V>(), slope));
  }
}

// p in place of the scores, and ds in place of dp. What is hidden gets exactly 0, whatever stands there.
template <class T>
__attribute__((noinline)) void weights_and_slopes(const BlockPair<T>& pair) {
  using V = Vec<T>;
  const AttentionMemory<T>& m = pair.m;
  const bool drops = pair.a.drops, hides = pair.hides;
  const V none = constant<V>(-__builtin_inf());
  for (Index lane = 0; lane < pair.lanes; lane += kLanes) {
    const V most = V::load(m.maxima + lane), inverse = V::load(m.totals + lane), dot = V::load(m.dots + lane);
    const KeyRange seen = pair.seen_by(lane);
    for (Index t = seen.begin; t < seen.end; ++t) {
      const Index at = t * kQueries + lane;
      const V s = V::load(m.scores + at);
      V p = exp(s - most) * inverse, dp = V::load(m.slopes + at), used = p;
      if (drops) {
        const V factor = V::load(m.factors + at);
        dp = dp * factor;
        used = p * factor;
      }
      V ds = p * (dp - dot);
      if (hides) {
        used = select(s == none, zero<V>(), used);
        ds = select(s == none, zero<V>(), ds);
      }
      used.store(m.scores + at);
      ds.store(m.slopes + at);
    }
    pair.clear_unseen(m.scores, lane, seen);
    pair.clear_unseen(m.slopes, lane, seen);
  }
}

// From the slopes of the capped scores to those of the plain ones. A hidden pair stays 0, even where tanh was NaN.
template <class T>
__attribute__((noinline)) void uncap_slopes(const BlockPair<T>& pair) {
  using V = Vec<T>;
  for (Index t = 0; t < pair.keys; ++t)
    for (Index lane = 0; lane < pair.lanes; lane += kLanes) {
      const Index at = t * kQueries + lane;
      const V ds = V::load(pair.m.slopes + at);
      select(ds == zero<V>(), ds, ds * V::load(pair.m.caps + at)).store(pair.m.slopes + at);
    }
}

// Everything that a pair of blocks adds to the gradients: to those of queries, of keys, or of both.
template <class T>
void add_gradients(BlockPair<T>& pair, bool queries, bool keys) {
  const AttentionArguments& a = pair.a;
  const AttentionMemory<T>& m = pair.m;
  const T one = scale_of(m.sums, 1), scale = scale_of(m.sums, a.scale);
  const T *k = pair.row_of(a.k, pair.key_head, pair.j), *v = pair.row_of(a.v, pair.key_head, pair.j);
  const T *q = pair.row_of(a.q, pair.place.head, pair.i), *dy = pair.row_of(a.dy, pair.place.head, pair.i);
  pair.compute_scores(true);
  multiply_blocks<T>({.c = {m.slopes, kQueries},
                      .a = {v, a.v.row},
                      .b = {m.upstream, kQueries},
                      .rows = pair.keys, .columns = pair.lanes, .depth = a.value_width,
                      .scale = one,
                      .add = false,
                      .results = pair.by_key});  // dpᵀ = v dyᵀ
  const bool plain = !pair.hides || (pair.has_finite_queries() && pair.has_finite_hidden(k, a.k.row, a.width));
  const T* seen = plain ? nullptr : pair.mark_seen();
  if (a.drops) pair.take_factors();
  weights_and_slopes(pair);
  if (queries && a.dscores.data)
    copy_matrix(pair.row_of(a.dscores, pair.place.head, pair.i) + pair.j, a.dscores.row, m.slopes, 1, kQueries,
                pair.rows, pair.keys);
  if (a.softcap > 0) uncap_slopes(pair);
  // Zeros at the start of a sum leave no trace. At its end they might turn the sign of a zero, which matters where it is
  // added to one; dq gets a +0 in the end.
  const Band begins{pair.by_key.low};
  if (keys && a.dv.data)
    multiply_blocks<T>({.c = {pair.row_of(a.dv, pair.key_head, pair.j), a.dv.row},
                        .a = {m.scores, kQueries},
                        .b = {dy, a.dy.row},
                        .rows = pair.keys, .columns = a.value_width, .depth = pair.rows,
                        .scale = one,
                        .add = true,
                        .sums = begins,
                        .seen = seen});  // dv += pᵀ dy
  if (keys && a.dk.data)
    multiply_blocks<T>({.c = {pair.row_of(a.dk, pair.key_head, pair.j), a.dk.row},
                        .a = {m.slopes, kQueries},
                        .b = {q, a.q.row},
                        .rows = pair.keys, .columns = a.width, .depth = pair.rows,
                        .scale = scale,
                        .add = true,
                        .sums = begins,
                        .seen = seen});  // dk += scale dsᵀ q
  if (queries && a.dq.data)
    multiply_blocks<T>({.c = {m.sums, a.width},
                        .a = {m.slopes, 1, kQueries},
                        .b = {k, a.k.row},
                        .rows = pair.rows, .columns = a.width, .depth = pair.keys,
                        .scale = scale,
                        .add = true,
                        .sums = pair.by_query,
                        .seen = seen});  // dq += scale ds k
}

template <class T>
INLINE void take_queries_backward(BlockPair<T>& pair, Index first) {
  pair.take_queries(first);
  pair.transpose(pair.m.upstream, pair.row_of(pair.a.dy, pair.place.head, first), pair.a.dy.row, pair.a.value_width);
  pair.load_statistics();
}

// A block of queries against all keys that it sees: dq, and where `keys` is set its part of dk and dv.
template <class T>
void backward_of_queries(BlockPair<T>& pair, Index first, bool keys) {
  using V = Vec<T>;
  const AttentionArguments& a = pair.a;
  const AttentionMemory<T>& m = pair.m;
  take_queries_backward(pair, first);
  row_dots(pair);
  if (a.dsinks) sink_slopes(pair);
  if (a.dq.data) clear(m.sums, pair.rows * a.width);
  const KeyRange range = pair.seen_keys();
  for (Index block = range.begin / kAttentionKeys * kAttentionKeys; block < range.end; block += kAttentionKeys)
    if (pair.take_keys(block, range)) add_gradients(pair, true, keys);
  if (!a.dq.data) return;
  T* dq = pair.row_of(a.dq, pair.place.head, pair.i);
  for (Index row = 0; row < pair.rows; ++row, dq += a.dq.row)
    each_vector(a.width, [&](Index c, int n) {
      const V total = load_lanes<T>(m.sums + row * a.width + c, n) + zero<V>();
      store_lanes<T>(dq + c, n, a.adds_to_dq ? load_lanes<T>(dq + c, n) + total : total);
    });
}

// dk and dv of keys first ... end - 1 start from 0, unless they are added to.
template <class T>
INLINE void clear_keys(const BlockPair<T>& pair, Index first, Index end) {
  const AttentionArguments& a = pair.a;
  for (Index key = first; key < end; ++key) {
    if (a.dk.data && !a.adds_to_dk) clear(pair.row_of(a.dk, pair.key_head, key), a.width);
    if (a.dv.data && !a.adds_to_dv) clear(pair.row_of(a.dv, pair.key_head, key), a.value_width);
  }
}

// Everything at once: an item is a head of keys, with all heads of queries that read it, in order.
template <class T>
void attention_backward(const void* arguments, Index begin, Index end) {
  const auto& a = *static_cast<const AttentionArguments*>(arguments);
  const AttentionMemory<T> memory(a);
  const Index group = a.heads / a.key_heads, blocks = query_blocks(a);
  for (Index item = begin; item < end; ++item)
    for (Index head = item % a.key_heads * group, last = head + group; head < last; ++head) {
      BlockPair<T> pair(a, memory, item / a.key_heads, head);
      if (head + group == last) clear_keys(pair, 0, a.keys);
      for (Index block = 0; block < blocks; ++block) backward_of_queries(pair, block * kQueries, true);
    }
}

// The same in two passes, of which each computes the weights anew, for where there are few heads and many threads. The
// sums have the same order, and so the same bits. Here an item is a block of queries ...
template <class T>
void attention_backward_queries(const void* arguments, Index begin, Index end) {
  const auto& a = *static_cast<const AttentionArguments*>(arguments);
  const AttentionMemory<T> memory(a);
  const Index blocks = query_blocks(a);
  for (Index item = begin; item < end; ++item) {
    const Index of_head = item / blocks;
    BlockPair<T> pair(a, memory, of_head / a.heads, of_head % a.heads);
    backward_of_queries(pair, (blocks - 1 - item % blocks) * kQueries, false);
  }
}

// ... and here a block of keys.
template <class T>
void attention_backward_keys(const void* arguments, Index begin, Index end) {
  const auto& a = *static_cast<const AttentionArguments*>(arguments);
  const AttentionMemory<T> memory(a);
  const Index group = a.heads / a.key_heads, key_blocks = pieces(a.keys, kAttentionKeys);
  for (Index item = begin; item < end; ++item) {
    const Index block = item % key_blocks * kAttentionKeys, of_head = item / key_blocks;
    for (Index head = of_head % a.key_heads * group, last = head + group; head < last; ++head) {
      BlockPair<T> pair(a, memory, of_head / a.key_heads, head);
      if (head + group == last) clear_keys(pair, block, smaller(block + kAttentionKeys, a.keys));
      for (Index first = 0; first < a.queries; first += kQueries) {
        pair.i = first;
        pair.rows = smaller(kQueries, a.queries - first);
        const KeyRange range = pair.seen_keys();
        if (range.begin >= block + kAttentionKeys || !pair.take_keys(block, range)) continue;
        take_queries_backward(pair, first);
        const T* dots = static_cast<const T*>(a.dots) + pair.row_number();
        for (Index lane = 0; lane < pair.lanes; lane += kLanes)
          load_lanes(dots + lane, lanes_at(lane, pair.rows)).store(pair.m.dots + lane);
        add_gradients(pair, false, true);
      }
    }
  }
}
