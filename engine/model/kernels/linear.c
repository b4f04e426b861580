/* Products of rows with weights that lie in panels of 16 columns. Float32.
 *
 *     W^T [K, N]   ->   panels [N / 16, K, 16]
 *
 * One token: every weight is read once, in order, two operations for four bytes: the time is that of reading them.
 * Many tokens: a panel stays near while groups of rows pass it; the time is that of the multiplications.
 */
#include "vectors.h"

#define FLOAT32 6 /* torch's numbers of a dtype and a device */
#define CPU 0
#define SERIAL_BELOW (1 << 16) /* weights times rows; waking the other threads takes longer than so few */
#define FEW 3 /* rows that are read where they lie */
#define AHEAD 32 /* lines of a panel */
#define RUN 256 /* products that are added one by one; sums of longer ones would lose more of their last bits */
#if defined(__AVX512F__)
#define WIDTH 16 /* numbers that a register holds */
#define GROUP 16 /* rows whose sums all stay in registers */
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
#define PARTS (LANES / WIDTH) /* registers in a line of a panel; left to the compiler, it would split them in memory */
#define INLINE static inline __attribute__((always_inline))
typedef float part __attribute__((vector_size(4 * WIDTH), aligned(4), may_alias));

/* y [16] = x [K] times one panel [K, 16]. Several sums: one would have to wait for itself. */
INLINE void panel_one(const float *x, const float *panel, int64_t width, float *y) {
    part total[PARTS] = {{0}};
    for (int64_t begin = 0; begin < width; begin += RUN) {
        part sums[2][PARTS] = {{{0}}};
        int64_t end = begin + RUN < width ? begin + RUN : width, k = begin;
        for (; k + 2 <= end; k += 2)
            for (int64_t i = 0; i < 2; i++)
                for (int64_t p = 0; p < PARTS; p++)
                    sums[i][p] += x[k + i] * *(const part *)(panel + (k + i) * LANES + p * WIDTH);
        for (; k < end; k++)
            for (int64_t p = 0; p < PARTS; p++) sums[0][p] += x[k] * *(const part *)(panel + k * LANES + p * WIDTH);
        for (int64_t p = 0; p < PARTS; p++) total[p] += sums[0][p] + sums[1][p];
    }
    for (int64_t p = 0; p < PARTS; p++) *(part *)(y + p * WIDTH) = total[p];
}

/* y [rows, N] = x times one panel [K, 16], where x[r, k] lies at r * to_row + k * to_next. `most`, a constant where
 * this is inlined, is at least `rows`.
 */
INLINE void panel_rows(int64_t most, int64_t rows, const float *x, int64_t to_row, int64_t to_next, const float *panel,
                       int64_t width, float *y, int64_t n) {
    for (int64_t begin = 0; begin < width; begin += RUN) {
        part sums[GROUP][PARTS];
        int64_t end = begin + RUN < width ? begin + RUN : width;
        for (int64_t r = 0; r < most; r++)
            for (int64_t p = 0; p < PARTS; p++) sums[r][p] = (part){0};
        for (int64_t k = begin; k < end; k++) {
            const float *line = panel + k * LANES;
            if (most > FEW) __builtin_prefetch(line + AHEAD * LANES);
            part weights[PARTS];
            for (int64_t p = 0; p < PARTS; p++) weights[p] = *(const part *)(line + p * WIDTH);
            for (int64_t r = 0; r < most; r++)
                for (int64_t p = 0; p < PARTS; p++) sums[r][p] += x[k * to_next + r * to_row] * weights[p];
        }
        for (int64_t r = 0; r < most; r++)
            for (int64_t p = 0; p < PARTS; p++) {
                part *to = (part *)(y + r * n + p * WIDTH);
                if (r >= rows) continue;
                if (begin) sums[r][p] += *to;
                *to = sums[r][p];
            }
    }
}

static void few_rows(const float *x, const float *panels, float *y, int64_t m, int64_t width, int64_t n) {
#pragma omp parallel for schedule(static) if (m * width * n >= SERIAL_BELOW)
    for (int64_t p = 0; p < n / LANES; p++) {
        const float *panel = panels + p * width * LANES;
        float *out = y + p * LANES;
        if (m == 1) panel_one(x, panel, width, out);
        else if (m == 2) panel_rows(2, 2, x, width, 1, panel, width, out, n);
        else panel_rows(3, 3, x, width, 1, panel, width, out, n);
    }
}

/* A group of turned rows [K, GROUP] times one panel. */
static void group_rows(int64_t rows, const float *x, const float *panel, int64_t width, float *y, int64_t n) {
    if (GROUP > 12 && rows > 12) panel_rows(GROUP, rows, x, 1, GROUP, panel, width, y, n);
    else if (GROUP > 8 && rows > 8) panel_rows(GROUP < 12 ? GROUP : 12, rows, x, 1, GROUP, panel, width, y, n);
    else if (GROUP > 6 && rows > 6) panel_rows(GROUP < 8 ? GROUP : 8, rows, x, 1, GROUP, panel, width, y, n);
    else if (GROUP > 4 && rows > 4) panel_rows(GROUP < 6 ? GROUP : 6, rows, x, 1, GROUP, panel, width, y, n);
    else if (GROUP > 3 && rows > 3) panel_rows(4, rows, x, 1, GROUP, panel, width, y, n);
    else panel_rows(3, rows, x, 1, GROUP, panel, width, y, n);
}

/* y [M, N] = x [M, K] times panels [N / 16, K, 16], all contiguous. More than a few rows are turned in groups,
 * [K, GROUP], so that they too are read in order; every weight comes from memory once, for the groups after the first
 * its panel is still near. Returns 0, or 1 without memory.
 */
int linear_panels(const float *x, const float *panels, float *y, int64_t m, int64_t width, int64_t n) {
    if (!m) return 0;
    if (m <= FEW) {
        few_rows(x, panels, y, m, width, n);
        return 0;
    }
    int64_t groups = (m + GROUP - 1) / GROUP;
    float *turned = malloc(sizeof(float) * groups * width * GROUP);
    if (!turned) return 1;
#pragma omp parallel if (m * width * n >= SERIAL_BELOW)
    {
#pragma omp for schedule(static)
        for (int64_t g = 0; g < groups; g++) {
            const float *own = x + g * GROUP * width;
            float *to = turned + g * GROUP * width;
            int64_t rows = m - g * GROUP;
            for (int64_t k = 0; k < width; k++)
                for (int64_t r = 0; r < GROUP; r++) to[k * GROUP + r] = r < rows ? own[r * width + k] : 0;
        }
#pragma omp for schedule(static)
        for (int64_t p = 0; p < n / LANES; p++)
            for (int64_t g = 0; g < groups; g++)
                group_rows(m - g * GROUP, turned + g * GROUP * width, panels + p * width * LANES, width,
                           y + g * GROUP * n + p * LANES, n);
    }
    free(turned);
    return 0;
}

/* Torch's C functions, given by address: nothing is linked against torch. */
typedef void *tensor;
static int32_t (*get_data)(tensor, void **), (*get_dim)(tensor, int64_t *);
static int32_t (*get_sizes)(tensor, int64_t **), (*get_strides)(tensor, int64_t **);
static int32_t (*make_empty)(int64_t, const int64_t *, const int64_t *, int32_t, int32_t, int32_t, tensor *);

/* Returns whether this build uses every core. */
int use_torch(void *data, void *dim, void *sizes, void *strides, void *empty) {
    get_data = data, get_dim = dim, get_sizes = sizes, get_strides = strides, make_empty = empty;
#if defined(_OPENMP)
    return 1;
#else
    return 0;
#endif
}

/* What compiled code calls for `kvtheater::linear`: out [..., N] = contiguous x [..., K] times panels [N / 16, K, 16],
 * of at most 4 dimensions. Returns 0, or an error.
 */
int32_t aoti_torch_cpu_linear(tensor x, tensor panels, tensor *out) {
    int64_t dims, *sizes, *strides, m = 1, shape[4], steps[4];
    void *from, *packed, *to;
    if (get_sizes(panels, &sizes)) return 1;
    int64_t width = sizes[1], n = sizes[0] * LANES;
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
    return linear_panels(from, packed, to, m, width, n);
}
