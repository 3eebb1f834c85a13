// C = scale * A B, tile by tile. A tile is a block of C whose sums stay in registers while k runs: `rows` numbers of
// A, each broadcast, times a few registers of B. Every element of C is one chain of fused multiply-adds per kGemmDepth
// steps of k, so that neither the tile's shape, nor its place, nor packing, nor the thread can change a bit.

template <class T> struct RegisterOf;
template <> struct RegisterOf<float> { using type = F32; };
template <> struct RegisterOf<double> { using type = F64; };
template <> struct RegisterOf<dual> { using type = Dual<F64>; };
template <class T>
using Register = typename RegisterOf<T>::type;

template <class T>
inline constexpr int kTileColumns = Tile<T>::kRegisters * Register<T>::kLanes;

// What one tile works on. A step of k moves `a` by a_step and `b` by b_step; `next` is memory to fetch meanwhile.
template <class T>
struct TileJob {
  Index depth;
  const T* a;
  Index a_row, a_step;
  const T* b;
  Index b_step;
  T* c;
  Index c_row;
  int lanes;  // of the last register of a row
  bool add;
  T scale;
  const T* next;
  Index next_step, next_round;
};

INLINE void fetch(const void* p) { __builtin_prefetch(p); }

// A pointer that the compiler must step as it is written: left alone, clang keeps one for each row, and spills them.
template <class T>
INLINE const T* stepped(const T* p, Index step) {
  p += step;
  asm("" : "+r"(p));
  return p;
}

template <class V> INLINE V scaled(V a, typename V::T scale) { return a * V::all(scale); }
template <class V> INLINE Dual<V> scaled(Dual<V> a, dual scale) {
  return {a.value * V::all(scale.value), a.tangent * V::all(scale.value)};
}

// Rows are reached from one pointer for every three, so that addresses need few general registers.
template <class T, int rows, int registers, bool masked>
void tile(const TileJob<T>& job) {
  using V = Register<T>;
  constexpr int kGroups = (rows + 2) / 3, kLast = registers - 1;
  const int lanes = job.lanes;
  const Index a_row = job.a_row, a_step = job.a_step, b_step = job.b_step;
  const T* a[kGroups];
#pragma GCC unroll 16
  for (int g = 0; g < kGroups; ++g) a[g] = job.a + 3 * g * a_row;
  const T* b = job.b;
  V sum[rows][registers];
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i)
#pragma GCC unroll 16
    for (int v = 0; v < registers; ++v) sum[i][v] = zero<V>();

  // Each step of k also fetches memory. What the tile itself reads, eight steps ahead: long strides are beyond the
  // CPU's own guesses. And a line of something else: k runs in rounds of as many steps as there are rows, which fetch
  // the lines of C first, and then what the caller will want next.
  const Index ahead_a = 8 * a_step, ahead_b = 8 * b_step;
  Index left = job.depth;
  const T* next = job.next;
  for (int round = 0; left > 0; ++round) {
    const T* line = next;
    Index line_step = job.next_step, steps = left < rows ? left : rows;
    if (round < registers) {
      line = job.c + round * V::kLanes;
      line_step = job.c_row;
    } else {
      next += job.next_round;
    }
    left -= steps;
    do {
      fetch(line);
      line += line_step;
      fetch(a[0] + ahead_a);
      fetch(b + ahead_b);
      if (registers * sizeof(V) > 64) fetch(b + ahead_b + V::kLanes);
      V right[registers];
#pragma GCC unroll 16
      for (int v = 0; v < registers; ++v)
        right[v] = masked && v == kLast ? V::load(b + v * V::kLanes, lanes) : V::load(b + v * V::kLanes);
#pragma GCC unroll 16
      for (int i = 0; i < rows; ++i) {
        const V left_factor = V::all(a[i / 3][i % 3 * a_row]);
#pragma GCC unroll 16
        for (int v = 0; v < registers; ++v) sum[i][v] = fma(left_factor, right[v], sum[i][v]);
      }
#pragma GCC unroll 16
      for (int g = 0; g < kGroups; ++g) a[g] = stepped(a[g], a_step);
      b += b_step;
    } while (--steps > 0);
  }

  const bool add = job.add;
  const T scale = job.scale;
  const Index c_row = job.c_row;
  T* c = job.c;
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i, c += c_row)
#pragma GCC unroll 16
    for (int v = 0; v < registers; ++v) {
      T* to = c + v * V::kLanes;
      const V r = scaled(sum[i][v], scale);
      if (masked && v == kLast) {
        (add ? V::load(to, lanes) + r : r).store(to, lanes);
      } else {
        (add ? V::load(to) + r : r).store(to);
      }
    }
}

// The tiles by their size: [masked][registers - 1][rows - 1].
template <class T>
struct Tiles {
  using Function = void (*)(const TileJob<T>&);
  static constexpr int kRows = Tile<T>::kRows, kRegisters = Tile<T>::kRegisters;
  Function of[2][kRegisters][kRows];

  template <int rows, int registers>
  constexpr void fill() {
    of[0][registers - 1][rows - 1] = tile<T, rows, registers, false>;
    of[1][registers - 1][rows - 1] = tile<T, rows, registers, (Register<T>::kLanes > 1)>;
    if constexpr (rows > 1) fill<rows - 1, registers>();
    else if constexpr (registers > 1) fill<kRows, registers - 1>();
  }
  constexpr Tiles() : of{} { fill<kRows, kRegisters>(); }
};
template <class T>
constexpr Tiles<T> kTiles{};

// A strided matrix, copied to rows that lie `to_row` apart. Where its columns run through memory it is read along them.
template <class T>
void copy_matrix(T* to, Index to_row, const T* from, Index row, Index column, Index rows, Index columns) {
  using V = Register<T>;
  constexpr int lanes = V::kLanes, kSteps = kTransposed<V>;
  Index i = 0;
  if (column == 1) {
    for (; i < rows; ++i, from += row, to += to_row) {
      Index j = 0;
      for (; j + lanes <= columns; j += lanes) V::load(from + j).store(to + j);
      if (j < columns) V::load(from + j, static_cast<int>(columns - j)).store(to + j, static_cast<int>(columns - j));
    }
    return;
  }
  [[maybe_unused]] const Index whole = columns / lanes * lanes;
  if constexpr (kSteps > 1)
    for (; row == 1 && i + kSteps <= rows; i += kSteps) {
      for (Index j = 0; j < whole; j += lanes) {
        V lines[kSteps];
        load_transposed(from + i + j * column, column, lines);
#pragma GCC unroll 16
        for (int s = 0; s < kSteps; ++s) lines[s].store(to + (i + s) * to_row + j);
      }
      for (Index s = i; s < i + kSteps; ++s)
        for (Index j = whole; j < columns; ++j) to[s * to_row + j] = from[s + j * column];
    }
  for (; i < rows; ++i)
    for (Index j = 0; j < columns; ++j) to[i * to_row + j] = from[i * row + j * column];
}

INLINE float plus(float a, float b) { return a + b; }
INLINE double plus(double a, double b) { return a + b; }
INLINE dual plus(dual a, dual b) { return {a.value + b.value, a.tangent + b.tangent}; }

INLINE Index smaller(Index a, Index b) { return a < b ? a : b; }
INLINE Index larger(Index a, Index b) { return a < b ? b : a; }
INLINE Index pieces(Index size, Index piece) { return (size + piece - 1) / piece; }

INLINE float scale_of(const float*, double scale) { return static_cast<float>(scale); }
INLINE double scale_of(const double*, double scale) { return scale; }
INLINE dual scale_of(const dual*, double scale) { return {scale, 0}; }

// What one item works on: some rows of A and C, some columns of B and C.
template <class T>
struct GemmPart {
  T* c;
  const T* a;
  const T* b;
  Index rows, columns;
};

// One tile, straight into C where a row of C is dense, or else by way of a buffer.
template <class T>
void run_tile(TileJob<T>& job, Index rows, Index columns, Index c_column) {
  constexpr Index lanes = Register<T>::kLanes;
  job.lanes = static_cast<int>((columns - 1) % lanes + 1);
  const auto& tiles = kTiles<T>.of[columns % lanes != 0][(columns - 1) / lanes];
  if (c_column == 1) return tiles[rows - 1](job);
  alignas(64) unsigned char memory[Tile<T>::kRows * kTileColumns<T> * sizeof(T)];
  TileJob<T> apart = job;
  apart.c = reinterpret_cast<T*>(memory);
  apart.c_row = kTileColumns<T>;
  apart.add = false;
  tiles[rows - 1](apart);
  for (Index i = 0; i < rows; ++i)
    for (Index j = 0; j < columns; ++j) {
      const T r = apart.c[i * apart.c_row + j];
      T& to = job.c[i * job.c_row + j * c_column];
      to = job.add ? plus(to, r) : r;
    }
}

// What does not change from tile to tile.
template <class T>
INLINE TileJob<T> first_job(const GemmArguments& g) {
  TileJob<T> job;
  job.a_row = g.a.row;
  job.a_step = g.a.column;
  job.b_step = g.b.row;
  job.c_row = g.c.row;
  job.scale = scale_of(static_cast<const T*>(g.a.data), g.scale);
  return job;
}

// How a panel of A is fetched while the one before it is at work: round by round, `step` apart within a round.
template <class T>
struct FetchPlan {
  Index step, round, rounds;

  INLINE FetchPlan(const GemmArguments& g, Index rows, Index depth) {
    constexpr Index line = 64 / static_cast<Index>(sizeof(T));
    if (g.a.row == 1 && g.a.column == g.panel_rows) {  // packed: line after line
      step = line;
      round = rows * line;
      rounds = pieces(depth, line);
    } else if (g.a.row == 1) {  // a line for each k
      step = g.a.column;
      round = rows * g.a.column;
      rounds = pieces(depth, rows);
    } else {  // rows: a line of each, then the next
      step = g.a.row;
      round = line * g.a.column;
      rounds = pieces(depth, line);
    }
  }
};

// Where B is packed, or dense in place: a panel of A stays near while B streams by.
template <class T>
void multiply_by_panels(const GemmArguments& g, const GemmPart<T>& part) {
  TileJob<T> job = first_job<T>(g);
  for (Index i = 0; i < part.rows; i += g.panel_rows) {
    const Index rows = smaller(g.panel_rows, part.rows - i);
    const T* const panel = part.a + i / g.panel_rows * g.a_panel;
    Index k = 0;
    do {
      job.depth = smaller(kGemmDepth, g.depth - k);
      job.add = g.accumulate || k > 0;
      job.a = panel + k / kGemmDepth * g.a_block;
      job.b = part.b + k / kGemmDepth * g.b_block;
      job.c = part.c + i * g.c.row;
      const T* next = k + kGemmDepth < g.depth ? job.a + g.a_block : panel + g.a_panel;
      FetchPlan<T> plan(g, rows, job.depth);
      for (Index j = 0; j < part.columns; j += kTileColumns<T>) {
        const bool fetches = plan.rounds > 0;
        job.next = fetches ? next : job.b;
        job.next_step = fetches ? plan.step : 0;
        job.next_round = fetches ? plan.round : 0;
        const Index rounds = larger(job.depth / rows - Tile<T>::kRegisters, 0);  // those that C leaves
        plan.rounds -= rounds;
        next += rounds * plan.round;
        run_tile(job, rows, smaller(kTileColumns<T>, part.columns - j), g.c.column);
        job.b += g.b_sliver;
        job.c += kTileColumns<T> * g.c.column;
      }
    } while ((k += kGemmDepth) < g.depth);
  }
}

// For small products whose B is not dense: each sliver of B is copied to the stack, and meets all of A.
template <class T>
void multiply_by_slivers(const GemmArguments& g, const GemmPart<T>& part) {
  alignas(64) unsigned char memory[kGemmDepth * kTileColumns<T> * sizeof(T)];
  T* const sliver = reinterpret_cast<T*>(memory);
  TileJob<T> job = first_job<T>(g);
  job.b = job.next = sliver;
  job.b_step = kTileColumns<T>;
  job.next_step = job.next_round = 0;
  Index k = 0;
  do {
    job.depth = smaller(kGemmDepth, g.depth - k);
    job.add = g.accumulate || k > 0;
    for (Index j = 0; j < part.columns; j += kTileColumns<T>) {
      const Index columns = smaller(kTileColumns<T>, part.columns - j);
      const T* from = part.b + k * g.b.row + j * g.b.column;
      copy_matrix(sliver, kTileColumns<T>, from, g.b.row, g.b.column, job.depth, columns);
      for (Index i = 0; i < part.rows; i += g.panel_rows) {
        job.a = part.a + i * g.a.row + k * g.a.column;
        job.c = part.c + i * g.c.row + j * g.c.column;
        run_tile(job, smaller(g.panel_rows, part.rows - i), columns, g.c.column);
      }
    }
  } while ((k += kGemmDepth) < g.depth);
}

// The first of part `part` of `parts` nearly equal ones of [0, size), which are cut at multiples of `unit`.
INLINE Index cut(Index size, Index unit, Index part, Index parts) {
  return parts == 1 ? part * size : smaller(pieces(size, unit) * part / parts * unit, size);
}

// An item is a matrix of the batch, a part of its rows and a part of its columns, the last running fastest.
template <class T>
void gemm(const void* arguments, Index begin, Index end) {
  const auto& g = *static_cast<const GemmArguments*>(arguments);
  for (Index item = begin; item < end; ++item) {
    const Index row_part = item / g.column_parts % g.row_parts, column_part = item % g.column_parts;
    const Index i = cut(g.rows, g.panel_rows, row_part, g.row_parts);
    const Index j = cut(g.columns, kTileColumns<T>, column_part, g.column_parts);
    Index c = i * g.c.row + j * g.c.column;
    Index a = i / g.panel_rows * g.a_panel;
    Index b = g.slivers_first ? j * g.b.column : j / kTileColumns<T> * g.b_sliver;
    Index matrix = item / (g.row_parts * g.column_parts);
    for (int axis = g.batch_rank - 1; axis >= 0; matrix /= g.batch[axis--]) {
      const Index at = matrix % g.batch[axis];
      c += at * g.c.batch[axis];
      a += at * g.a.batch[axis];
      b += at * g.b.batch[axis];
    }
    const GemmPart<T> part{static_cast<T*>(g.c.data) + c, static_cast<const T*>(g.a.data) + a,
                           static_cast<const T*>(g.b.data) + b,
                           cut(g.rows, g.panel_rows, row_part + 1, g.row_parts) - i,
                           cut(g.columns, kTileColumns<T>, column_part + 1, g.column_parts) - j};
    if (g.slivers_first) multiply_by_slivers(g, part);
    else multiply_by_panels(g, part);
  }
}

template <class T>
void gemm_pack(const void* arguments, Index begin, Index end) {
  const auto& p = *static_cast<const GemmPackArguments*>(arguments);
  const Index all = pieces(p.columns, p.width), groups = pieces(all, p.slivers);
  for (Index item = begin; item < end; ++item) {
    const Index k = item / groups * p.steps, first = item % groups * p.slivers;
    T* to = static_cast<T*>(p.to) + k / kGemmDepth * p.block + first * p.sliver + k % kGemmDepth * p.width;
    const T* from = static_cast<const T*>(p.from) + k * p.row + first * p.width * p.column;
    const Index steps = smaller(p.steps, p.depth - k), last = smaller(first + p.slivers, all);
    for (Index j = first; j < last; ++j, to += p.sliver, from += p.width * p.column)
      copy_matrix(to, p.width, from, p.row, p.column, steps, smaller(p.width, p.columns - j * p.width));
  }
}
