/* Products of few rows with the weights, packed in panels. Float32. */
#include "vectors.h"

#define FLOAT32 6 /* torch's numbers of a dtype and a device */
#define CPU 0
#define MOST_ROWS 128

/* y [rows, N] = turned rows of x, [K, 16], times one panel [K, 16] of the weights. `most`, a constant where this is
 * inlined, is at least `rows`; so many sums stay in registers.
 */
static inline __attribute__((always_inline)) void panel_rows(int64_t most, int64_t rows, const float *x,
                                                             const float *panel, int64_t width, float *y, int64_t n) {
    vector sums[LANES];
    for (int64_t r = 0; r < most; r++) sums[r] = (vector){0};
    for (int64_t k = 0; k < width; k++) {
        vector weights = *(const vector *)(panel + k * LANES);
        __builtin_prefetch(panel + (k + 2 * LANES) * LANES);
        for (int64_t r = 0; r < most; r++) sums[r] += x[k * LANES + r] * weights;
    }
    for (int64_t r = 0; r < most; r++)
        if (r < rows) *(vector *)(y + r * n) = sums[r];
}

/* y [M, N] = x [M, K] times weights in panels [N / 16, K, 16]. Rows are turned in groups of 16, [K, 16], so that both
 * are read in order. Every weight is read from memory once; for the groups after the first its panel is still near.
 */
static int linear_panels(const float *x, const float *panels, float *y, int64_t m, int64_t width, int64_t n) {
    int64_t groups = (m + LANES - 1) / LANES;
    float *turned = malloc(sizeof(float) * groups * width * LANES);
    if (!turned) return 1;
#pragma omp parallel
    {
#pragma omp for schedule(static)
        for (int64_t g = 0; g < groups; g++) {
            const float *own = x + g * LANES * width;
            float *to = turned + g * LANES * width;
            int64_t rows = m - g * LANES;
            for (int64_t k = 0; k < width; k++)
                for (int64_t r = 0; r < LANES; r++) to[k * LANES + r] = r < rows ? own[r * width + k] : 0;
        }
#pragma omp for schedule(static)
        for (int64_t p = 0; p < n / LANES; p++)
            for (int64_t g = 0; g < groups; g++) {
                const float *own = turned + g * LANES * width, *panel = panels + p * width * LANES;
                float *out = y + g * LANES * n + p * LANES;
                int64_t rows = m - g * LANES;
                if (rows > 12) panel_rows(16, rows, own, panel, width, out, n);
                else if (rows > 8) panel_rows(12, rows, own, panel, width, out, n);
                else if (rows > 4) panel_rows(8, rows, own, panel, width, out, n);
                else panel_rows(4, rows, own, panel, width, out, n);
            }
    }
    free(turned);
    return 0;
}

/* Torch's C functions, given by address: nothing is linked against torch. */
typedef void *tensor;
static int32_t (*get_data)(tensor, void **), (*get_sizes)(tensor, int64_t **), (*get_strides)(tensor, int64_t **);
static int32_t (*make_empty)(int64_t, const int64_t *, const int64_t *, int32_t, int32_t, int32_t, tensor *);
static int32_t (*mm_out)(tensor, tensor, tensor);

/* Returns whether this build gains by `linear_panels`: 16 sums of 16 numbers want AVX-512's registers. */
int use_torch(void *data, void *sizes, void *strides, void *empty, void *mm) {
    get_data = data, get_sizes = sizes, get_strides = strides, make_empty = empty, mm_out = mm;
#if defined(__AVX512F__) && defined(_OPENMP)
    return 1;
#else
    return 0;
#endif
}

/* What compiled code calls for `kvtheater::linear`: out [M, N] = x [M, K] times weight [K, N], contiguous and in
 * panels. From some length on MKL is as fast. Returns 0, or an error.
 */
int32_t aoti_torch_cpu_linear(tensor x, tensor panels, tensor weight, tensor *out) {
    int64_t *shape, *steps;
    void *from, *packed, *to;
    if (get_sizes(weight, &shape)) return 1;
    int64_t width = shape[0], n = shape[1];
    if (get_sizes(x, &shape) || get_strides(x, &steps)) return 1;
    int64_t m = shape[0], sizes[] = {m, n}, strides[] = {n, 1};
    if (make_empty(2, sizes, strides, FLOAT32, CPU, 0, out)) return 1;
    if (m > MOST_ROWS || steps[0] != width || steps[1] != 1) return mm_out(*out, x, weight);
    if (get_data(x, &from) || get_data(panels, &packed) || get_data(*out, &to)) return 1;
    return linear_panels(from, packed, to, m, width, n);
}
