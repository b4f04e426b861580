/* Vectors of 16 numbers with GCC's and Clang's extensions: an AVX-512 register, or several smaller ones. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define LANES 16
#define HIDDEN -1e30f

typedef float vector __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef float half __attribute__((vector_size(2 * LANES)));
typedef float quarter __attribute__((vector_size(LANES)));
typedef int32_t integers __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t half_integers __attribute__((vector_size(2 * LANES)));
typedef int32_t quarter_integers __attribute__((vector_size(LANES)));

/* e^x for x <= 0 with a relative error below 3e-7: 2^n * p(r), where x = n ln 2 + r; 0 below -87 */
static inline vector exp_of(vector x) {
    integers in_range = x > -87.0f;
    x = (vector)((integers)x & in_range);
    integers n = __builtin_convertvector(x * 1.44269504f - 0.5f, integers);
    vector whole = __builtin_convertvector(n, vector);
    vector r = x - whole * 0.693359375f + whole * 2.12194440e-4f;
    vector p = r * 1.98412698e-4f + 1.38888889e-3f;
    p = p * r + 8.33333333e-3f;
    p = p * r + 4.16666667e-2f;
    p = p * r + 1.66666667e-1f;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    return (vector)((integers)(p * (vector)((n + 127) << 23)) & in_range);
}

/* Elementwise maximum. */
#define LARGER(name, kind, mask)                                               \
    static inline kind name(kind a, kind b) {                                  \
        mask first = a > b;                                                    \
        return (kind)(((mask)a & first) | ((mask)b & ~first));                 \
    }
LARGER(larger, vector, integers)
LARGER(larger_half, half, half_integers)
LARGER(larger_quarter, quarter, quarter_integers)

/* Sum of all lanes by halves, since in a sequential sum each addition would wait for the previous one. */
static inline float sum_of(vector x) {
    union {
        vector all;
        half halves[2];
        quarter quarters[4];
    } lanes = {x};
    lanes.halves[0] += lanes.halves[1];
    quarter four = lanes.quarters[0] + lanes.quarters[1];
    return (four[0] + four[2]) + (four[1] + four[3]);
}

static inline float max_of(vector x) {
    union {
        vector all;
        half halves[2];
        quarter quarters[4];
    } lanes = {x};
    lanes.halves[0] = larger_half(lanes.halves[0], lanes.halves[1]);
    quarter four = larger_quarter(lanes.quarters[0], lanes.quarters[1]);
    float a = four[0] > four[2] ? four[0] : four[2], b = four[1] > four[3] ? four[1] : four[3];
    return a > b ? a : b;
}
