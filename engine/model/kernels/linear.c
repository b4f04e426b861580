/* Products of float32 rows with weights in panels of 16 columns: float32, bfloat16, int8 or int4.
 *
 *     W^T [K, N]   ->   panels [N / 16, K, 16]        int8: [N / 16, 4 + K, 16], each panel after its 16 float32 scales
 *     int4: [N / 16, K / 32 * 18, 16] bytes. 32 rows take 18 lines: 16 scales in bfloat16, then 16 lines of pairs; line
 *     i has rows i (low half) and i + 16 (high half), with w stored as w / scale + 8
 *
 * A single token reads every weight once, in order, for two operations each. It is bound by memory, so half of the
 * bytes take half of the time. With many tokens, a panel stays in cache while groups of rows are multiplied with it,
 * and the product is bound by arithmetic. Other types are widened to float32 in registers; for bfloat16 that appends 16
 * zero bits and is exact.
 */
#include "tensors.h"
#include "vectors.h"

#define SERIAL_BELOW (1 << 16) /* if weights times rows is less, one thread computes; waking others would take longer */
#define FEW 3 /* maximum number of rows that are not transposed */
#define AHEAD 32 /* lines of a panel from the current one to the prefetched one */
#define NEAR (1 << 17) /* number of transposed numbers that fit in a core's L2 cache together with a panel */
#define RUN 256 /* number of products that are summed sequentially; longer sums would be less precise */
#define SLICE 512 /* columns of a block of rows, if all of them do not fit in the L2 cache */
#define PART 128 /* minimum rows per part; with fewer, reading the weights would take longer than the arithmetic */
#if defined(__AVX2__)
#include <immintrin.h>
#endif
#if defined(_OPENMP)
#include <omp.h>
#else
static int omp_get_max_threads(void) { return 1; }
#endif
#if defined(__AVX512F__)
#define WIDTH 16 /* numbers in a register */
#define GROUP 16 /* number of rows whose sums all stay in registers */
#elif defined(__AVX__)
#define WIDTH 8
#define GROUP 6
#elif defined(__aarch64__)
#define WIDTH 4
#define GROUP 6
#else
#define WIDTH 4
#define GROUP 3
#endif
#define PARTS (LANES / WIDTH) /* registers per line of a panel; compilers would spill vectors of 16 numbers */
#define INLINE static inline __attribute__((always_inline))
typedef float part __attribute__((vector_size(4 * WIDTH), aligned(4), may_alias));
typedef uint32_t bits __attribute__((vector_size(4 * WIDTH)));
#if defined(__AVX512F__) /* GCC 12 would convert in half registers, and bytes one by one */
#define WIDE_BFLOAT16(p) (part) _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)(p))), 16)
#define WIDE_INT8(p) (part) _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const void *)(p))))
/* the lookup uses the low 4 bits of an index */
#define WIDE_INT4(p, shift)                                                                                            \
    (part) _mm512_permutexvar_ps((__m512i)((bits)_mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)(p))) >> (shift)), \
                                 _mm512_setr_ps(-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7))
#elif defined(__AVX2__)
#define WIDE_BFLOAT16(p) (part) _mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)(p))), 16)
#define WIDE_INT8(p) (part) _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const void *)(p))))
#define WIDE_INT4(p, shift)                                                                                            \
    ((part)_mm256_cvtepi32_ps(                                                                                         \
         (__m256i)((bits)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)(p))) >> (shift) & 15)) -                  \
     8)
#else
typedef uint16_t half_bits __attribute__((vector_size(2 * WIDTH), aligned(2), may_alias));
typedef int8_t bytes __attribute__((vector_size(WIDTH), aligned(1), may_alias));
#define WIDE_BFLOAT16(p) (part)(__builtin_convertvector(*(const half_bits *)(p), bits) << 16)
typedef uint8_t pairs __attribute__((vector_size(WIDTH), aligned(1), may_alias));
#define WIDE_INT8(p) __builtin_convertvector(*(const bytes *)(p), part)
#define WIDE_INT4(p, shift)                                                                                            \
    (__builtin_convertvector(__builtin_convertvector(*(const pairs *)(p), bits) >> (shift) & 15, part) - 8)
#endif
#define SCALES 4 /* number of lines of an int8 panel with its scales */
#define SHARED 32 /* number of int4 rows that share scales */
#define SHARED_LINES 18 /* number of lines of these rows */

INLINE int64_t size_of(int kind) { return kind == FLOAT32 ? 4 : kind == BFLOAT16 ? 2 : 1; }

/* Returns the number of lines of a panel with `width` rows. */
INLINE int64_t lines_of(int64_t width, int kind) {
    return kind == INT4 ? width / SHARED * SHARED_LINES : kind == INT8 ? SCALES + width : width;
}

/* Returns the number of rows of a panel whose products are summed before the sum is scaled and added to the total. */
INLINE int64_t run_of(int kind) { return kind == INT4 ? SHARED : RUN; }

/* Returns the address of the weights of panel p; the scales of int8 precede them. */
INLINE const char *panel_at(const char *panels, int64_t p, int64_t width, int kind) {
    return panels + (p * lines_of(width, kind) + (kind == INT8 ? SCALES : 0)) * LANES * size_of(kind);
}

/* Returns the address of the run that begins with this row of a panel. */
INLINE const char *run_at(const char *panel, int64_t row, int kind) {
    return panel + (kind == INT4 ? lines_of(row, kind) : row) * LANES * size_of(kind);
}

/* Returns the row of a run that is member 0 or 1 of a pair; rows are read in pairs. */
INLINE int64_t row_of(int64_t pair, int64_t member, int kind) {
    return kind == INT4 ? pair + SHARED / 2 * member : 2 * pair + member;
}

/* Returns WIDTH weights of that row, from column p * WIDTH. `kind`, here and below, is a constant after inlining. */
INLINE part weights_at(const char *run, int64_t pair, int64_t member, int64_t p, int kind) {
    if (kind == INT4) return WIDE_INT4(run + (2 + pair) * LANES + p * WIDTH, member * 4);
    const char *from = run + ((2 * pair + member) * LANES + p * WIDTH) * size_of(kind);
    if (kind == BFLOAT16) return WIDE_BFLOAT16(from);
    if (kind == INT8) return WIDE_INT8(from);
    return *(const part *)from;
}

INLINE part scaled(part sum, const char *panel, const char *run, int64_t p, int kind) {
    if (kind == INT8) sum *= *((const part *)(panel - SCALES * LANES) + p);
    if (kind == INT4) sum *= WIDE_BFLOAT16(run + p * WIDTH * 2);
    return sum;
}

/* y [16] = x [K] times one panel [K, 16], in two sums, since each addition to a sum waits for the previous one. */
INLINE void panel_one(const float *x, const char *panel, int64_t width, float *y, int kind) {
    part total[PARTS] = {{0}};
    for (int64_t begin = 0; begin < width; begin += run_of(kind)) {
        part sums[2][PARTS] = {{{0}}};
        const char *run = run_at(panel, begin, kind);
        const float *own = x + begin;
        int64_t length = run_of(kind) < width - begin ? run_of(kind) : width - begin;
        for (int64_t pair = 0; pair < length / 2; pair++)
            for (int64_t i = 0; i < 2; i++)
                for (int64_t p = 0; p < PARTS; p++)
                    sums[i][p] += own[row_of(pair, i, kind)] * weights_at(run, pair, i, p, kind);
        if (length % 2)
            for (int64_t p = 0; p < PARTS; p++) sums[0][p] += own[length - 1] * weights_at(run, length / 2, 0, p, kind);
        for (int64_t p = 0; p < PARTS; p++) total[p] += scaled(sums[0][p] + sums[1][p], panel, run, p, kind);
    }
    for (int64_t p = 0; p < PARTS; p++) *(part *)(y + p * WIDTH) = total[p];
}

/* sums [most] += a column x [most] times a row of weights. */
INLINE void add_row(int64_t most, part sums[][PARTS], const float *x, int64_t to_row, const char *run, int64_t pair,
                    int64_t member, int kind) {
    part weights[PARTS];
    for (int64_t p = 0; p < PARTS; p++) weights[p] = weights_at(run, pair, member, p, kind);
    for (int64_t r = 0; r < most; r++)
        for (int64_t p = 0; p < PARTS; p++) sums[r][p] += x[r * to_row] * weights[p];
}

/* Rows `first` to `last` - 1 of one panel [K, 16] times those columns of x, added to y [rows, N], or written if `first`
 * is 0. x[r, k] is at r * to_row + (k - first) * to_next. `most`, a constant after inlining, is at least `rows`.
 */
INLINE void panel_rows(int64_t most, int64_t rows, const float *x, int64_t to_row, int64_t to_next, const char *panel,
                       int64_t first, int64_t last, float *y, int64_t n, int kind) {
    for (int64_t begin = first; begin < last; begin += run_of(kind)) {
        part sums[GROUP][PARTS];
        const char *run = run_at(panel, begin, kind);
        const float *own = x + (begin - first) * to_next;
        int64_t length = run_of(kind) < last - begin ? run_of(kind) : last - begin;
        for (int64_t r = 0; r < most; r++)
            for (int64_t p = 0; p < PARTS; p++) sums[r][p] = (part){0};
        for (int64_t pair = 0; kind == INT4 && pair < SHARED / 2; pair++)
            for (int64_t i = 0; i < 2; i++)
                add_row(most, sums, own + row_of(pair, i, kind) * to_next, to_row, run, pair, i, kind);
        for (int64_t row = 0; kind != INT4 && row < length; row++) {
            if (most > FEW) __builtin_prefetch(run + (row * LANES * size_of(kind) + AHEAD * 64));
            add_row(most, sums, own + row * to_next, to_row, run, row / 2, row % 2, kind);
        }
        for (int64_t r = 0; r < most; r++)
            for (int64_t p = 0; p < PARTS; p++) {
                part *to = (part *)(y + r * n + p * WIDTH);
                if (r >= rows) continue;
                sums[r][p] = scaled(sums[r][p], panel, run, p, kind);
                if (begin) sums[r][p] += *to;
                *to = sums[r][p];
            }
    }
}

/* Multiplies up to FEW rows by panel p. */
INLINE void few_rows(const float *x, const char *panels, int64_t p, float *y, int64_t m, int64_t width, int64_t n,
                     int kind) {
    const char *panel = panel_at(panels, p, width, kind);
    float *out = y + p * LANES;
    if (m == 1) panel_one(x, panel, width, out, kind);
    else if (m == 2) panel_rows(2, 2, x, width, 1, panel, 0, width, out, n, kind);
    else panel_rows(3, 3, x, width, 1, panel, 0, width, out, n, kind);
}

/* Multiplies columns `first` to `last` - 1 of a transposed group of rows [last - first, GROUP] by panel p. */
INLINE void group_rows(int64_t rows, const float *x, const char *panels, int64_t p, int64_t width, int64_t first,
                       int64_t last, float *y, int64_t n, int kind) {
    const char *panel = panel_at(panels, p, width, kind);
    float *out = y + p * LANES;
#define GROUP_OF(most) panel_rows(most, rows, x, 1, GROUP, panel, first, last, out, n, kind)
    if (GROUP > 12 && rows > 12) GROUP_OF(GROUP);
    else if (GROUP > 8 && rows > 8) GROUP_OF(GROUP < 12 ? GROUP : 12);
    else if (GROUP > 6 && rows > 6) GROUP_OF(GROUP < 8 ? GROUP : 8);
    else if (GROUP > 4 && rows > 4) GROUP_OF(GROUP < 6 ? GROUP : 6);
    else if (GROUP > 3 && rows > 3) GROUP_OF(4);
    else GROUP_OF(3);
}

/* to [width, GROUP] = the first `width` columns of `rows` rows, transposed, with zeros for missing rows. */
INLINE void transpose(const float *x, int64_t rows, int64_t to_row, int64_t width, float *to) {
    int64_t k = 0;
#if defined(__AVX512F__) /* 16 x 16 in four rounds of pairs (a, b) -> a0 b0 a1 b1 ...: four times as fast */
    const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const __m512i high = _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    for (; k + WIDTH <= width; k += WIDTH) {
        __m512 a[GROUP], b[GROUP];
        for (int64_t r = 0; r < GROUP; r++)
            a[r] = r < rows ? _mm512_loadu_ps(x + r * to_row + k) : _mm512_setzero_ps();
        for (int64_t round = 0; round < 4; round++) {
            for (int64_t r = 0; r < GROUP / 2; r++) {
                b[2 * r] = _mm512_permutex2var_ps(a[r], low, a[r + GROUP / 2]);
                b[2 * r + 1] = _mm512_permutex2var_ps(a[r], high, a[r + GROUP / 2]);
            }
            for (int64_t r = 0; r < GROUP; r++) a[r] = b[r];
        }
        for (int64_t r = 0; r < GROUP; r++) _mm512_storeu_ps(to + (k + r) * GROUP, a[r]);
    }
#endif
    for (; k < width; k++)
        for (int64_t r = 0; r < GROUP; r++) to[k * GROUP + r] = r < rows ? x[r * to_row + k] : 0;
}

/* Defines a function per kind: compilers outline parallel regions before inlining, and would lose the constant. */
#define OF_KIND(kind)                                                                                                  \
    static void few_rows_##kind(const float *x, const char *panels, int64_t p, float *y, int64_t m, int64_t width,     \
                                int64_t n) {                                                                           \
        few_rows(x, panels, p, y, m, width, n, kind);                                                                  \
    }                                                                                                                  \
    static void group_rows_##kind(int64_t rows, const float *x, const char *panels, int64_t p, int64_t width,          \
                                  int64_t first, int64_t last, float *y, int64_t n) {                                  \
        group_rows(rows, x, panels, p, width, first, last, y, n, kind);                                                \
    }
OF_KIND(FLOAT32)
OF_KIND(BFLOAT16)
OF_KIND(INT8)
OF_KIND(INT4)
#define CALL(name, kind, ...)                                                                                          \
    ((kind) == FLOAT32 ? name##_FLOAT32(__VA_ARGS__)                                                                   \
                       : (kind) == BFLOAT16 ? name##_BFLOAT16(__VA_ARGS__)                                             \
                                            : (kind) == INT8 ? name##_INT8(__VA_ARGS__) : name##_INT4(__VA_ARGS__))

INLINE int64_t up(int64_t number, int64_t by) { return (number + by - 1) / by; }

/* y [M, N] = x [M, K] times panels of `kind`, all contiguous. Panels are divided among threads, and so are rows if
 * there are many. If there are more than FEW rows, each thread transposes blocks in groups [K, GROUP], so that they are
 * read in order; a block, or a slice of its columns, stays in cache while it is multiplied with one panel after another
 * (Goto and van de Geijn, Anatomy of High-Performance Matrix Multiplication, 2008). Threads do not share transposed
 * blocks, since they would wait for them and fetch them from another core's cache. Returns 0, or 1 if it is out of
 * memory.
 */
int linear_panels(const float *x, const void *weights, float *y, int64_t m, int64_t width, int64_t n, int kind) {
    const char *panels = weights;
    int64_t threads = m * width * n < SERIAL_BELOW ? 1 : omp_get_max_threads();
    if (!m) return 0;
    if (m <= FEW) {
#pragma omp parallel for schedule(static) if (threads > 1)
        for (int64_t p = 0; p < n / LANES; p++) CALL(few_rows, kind, x, panels, p, y, m, width, n);
        return 0;
    }
    int64_t parts = 1; /* of the rows; threads / parts threads compute each part */
    for (int64_t d = 2; d <= threads && d * PART <= m; d++)
        if (threads % d == 0) parts = d;
    /* The last bit of a sum with scales depends on slice and group, so these must not depend on the thread count. */
    int64_t groups = up(m, GROUP), own_groups = up(groups, parts);
    int64_t slice = width <= SLICE || groups * GROUP * width <= NEAR ? width : SLICE;
    int64_t fit = NEAR / (slice * GROUP) > 1 ? NEAR / (slice * GROUP) : 1;
    int64_t block = up(own_groups, up(own_groups, fit)) * GROUP; /* rows per block, about equal for all blocks */
    float *transposed = malloc(sizeof(float) * threads * block * slice);
    if (!transposed) return 1;
#pragma omp parallel for schedule(static) if (threads > 1)
    for (int64_t thread = 0; thread < threads; thread++) {
        int64_t part = thread % parts, share = thread / parts, shares = threads / parts;
        int64_t end = groups * (part + 1) / parts * GROUP, last_panel = n / LANES * (share + 1) / shares;
        float *own = transposed + thread * block * slice;
        if (end > m) end = m;
        for (int64_t from = groups * part / parts * GROUP; from < end; from += block)
            for (int64_t first = 0; first < width; first += slice) {
                int64_t to = from + block < end ? from + block : end;
                int64_t last = first + slice < width ? first + slice : width;
                for (int64_t r = from; r < to; r += GROUP)
                    transpose(x + r * width + first, to - r, width, last - first, own + (r - from) * slice);
                for (int64_t p = n / LANES * share / shares; p < last_panel; p++)
                    for (int64_t r = from; r < to; r += GROUP)
                        CALL(group_rows, kind, to - r, own + (r - from) * slice, panels, p, width, first, last,
                             y + r * n, n);
            }
    }
    free(transposed);
    return 0;
}

/* `kvtheater::linear` of compiled code: out [..., N] = contiguous x [..., K], of at most 4 dimensions, times panels as
 * above. Returns 0, or an error.
 */
int32_t aoti_torch_cpu_linear(tensor x, tensor panels, tensor *out) {
    int64_t dims, *sizes, *strides, m = 1, shape[4], steps[4];
    void *from, *packed, *to;
    int32_t kind;
    if (get_sizes(panels, &sizes) || get_dtype(panels, &kind)) return 1;
    if (kind != FLOAT32 && kind != BFLOAT16 && kind != INT8 && kind != INT4) return 1;
    int64_t width = kind == INT4 ? sizes[1] / SHARED_LINES * SHARED : sizes[1] - lines_of(0, kind);
    int64_t n = sizes[0] * LANES;
    if (get_dim(x, &dims) || dims < 1 || dims > 4 || get_sizes(x, &sizes) || get_strides(x, &strides)) return 1;
    if (sizes[dims - 1] != width) return 1;
    for (int64_t d = dims - 1, step = n, expected = width; d >= 0; d--) {
        int last = d == dims - 1;
        if (sizes[d] != 1 && strides[d] != (last ? 1 : expected)) return 1;
        shape[d] = last ? n : sizes[d];
        steps[d] = last ? 1 : step;
        if (!last) m *= sizes[d], step *= sizes[d], expected *= sizes[d];
    }
    if (make_empty(dims, shape, steps, FLOAT32, CPU, 0, out)) return 1;
    if (get_data(x, &from) || get_data(panels, &packed) || get_data(*out, &to)) return 1;
    return linear_panels(from, packed, to, m, width, n, kind);
}

/* `kvtheater::rows` of compiled code: out [..., K] = the panels' columns of contiguous ids [...], of at most 3
 * dimensions. The panels are not int4. Returns 0, or an error.
 */
int32_t aoti_torch_cpu_rows(tensor panels, tensor ids, tensor *out) {
    int64_t dims, *sizes, *strides, count = 1, shape[4], steps[4];
    void *from, *packed, *to;
    int32_t kind, kind_of_ids, failed = 0;
    if (get_sizes(panels, &sizes) || get_dtype(panels, &kind)) return 1;
    if (kind != FLOAT32 && kind != BFLOAT16 && kind != INT8) return 1;
    int64_t width = sizes[1] - lines_of(0, kind), n = sizes[0] * LANES;
    if (get_dim(ids, &dims) || dims > 3 || get_dtype(ids, &kind_of_ids) || kind_of_ids != INT64) return 1;
    if (get_sizes(ids, &sizes) || get_strides(ids, &strides)) return 1;
    shape[dims] = width, steps[dims] = 1;
    for (int64_t d = dims - 1; d >= 0; d--) {
        if (sizes[d] != 1 && strides[d] != count) return 1;
        shape[d] = sizes[d], steps[d] = count * width, count *= sizes[d];
    }
    if (make_empty(dims + 1, shape, steps, FLOAT32, CPU, 0, out)) return 1;
    if (get_data(ids, &from) || get_data(panels, &packed) || get_data(*out, &to)) return 1;
#pragma omp parallel for schedule(static) reduction(| : failed) if (count * width >= SERIAL_BELOW)
    for (int64_t i = 0; i < count; i++) {
        int64_t id = ((const int64_t *)from)[i], lane = id % LANES;
        float *row = (float *)to + i * width;
        if (id < 0 || id >= n) {
            failed = 1;
            continue;
        }
        const char *panel = panel_at(packed, id / LANES, width, kind);
        for (int64_t k = 0; k < width; k++) {
            int64_t at = k * LANES + lane;
            if (kind == FLOAT32) row[k] = ((const float *)panel)[at];
            else if (kind == INT8) row[k] = ((const int8_t *)panel)[at] * ((const float *)(panel - SCALES * LANES))[lane];
            else {
                uint32_t bits = (uint32_t)((const uint16_t *)panel)[at] << 16;
                memcpy(row + k, &bits, 4);
            }
        }
    }
    return failed;
}
