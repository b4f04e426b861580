/* What a decode step computed, rounded and written to where it lies in the log: once, from where it is. */
#include "vectors.h"

typedef _Float16 rounded __attribute__((vector_size(2 * LANES), aligned(1), may_alias));

/* `count` numbers to `to`, which need not be aligned. */
static uint8_t *store(const float *from, int64_t count, uint8_t *to, int as_half) {
    if (!as_half) {
        memcpy(to, from, 4 * count);
        return to + 4 * count;
    }
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES)
        *(rounded *)(to + 2 * i) = __builtin_convertvector(*(const vector *)(from + i), rounded);
    for (; i < count; i++) {
        _Float16 one = from[i];
        memcpy(to + 2 * i, &one, 2);
    }
    return to + 2 * count;
}

static void store_rows(const float *x, const int64_t *strides, int64_t tokens, int64_t heads, int64_t width,
                       uint8_t *to, int as_half) {
    for (int64_t t = 0; t < tokens; t++)
        for (int64_t h = 0; h < heads; h++)
            to = store(x + t * strides[0] + h * strides[1], width, to, as_half);
}

/* One layer of a step of n sequences with one new token each: q [n, Hq, D], k [n, Hkv, D], v [n, Hkv, Dv], whose last
 * dimensions are dense (`strides` of the first two of q, of k and of v), contiguous weights [n, Hq, L], of which each
 * sequence has its own length, and contiguous out [n, Hq, Dv].
 *
 * `form`: n, Hq, Hkv, D, Dv, L, whether numbers become float16 (to the nearest, of two to the even one) or stay float32;
 * the n lengths; 3 + n + 1 places, the bytes of `to` where q, k, v, each sequence's weights [Hq, 1, its length] and out
 * begin (-1: it is not kept).
 */
void store_decode(const float *q, const float *k, const float *v, const float *weights, const float *out, uint8_t *to,
                  const int64_t *form, const int64_t *strides) {
    int64_t n = form[0], num_heads = form[1], num_kv_heads = form[2], width = form[3], v_width = form[4];
    int64_t length = form[5], as_half = form[6];
    const int64_t *lengths = form + 7, *places = lengths + n;
    store_rows(q, strides, n, num_heads, width, to + places[0], as_half);
    store_rows(k, strides + 2, n, num_kv_heads, width, to + places[1], as_half);
    store_rows(v, strides + 4, n, num_kv_heads, v_width, to + places[2], as_half);
    for (int64_t i = 0; i < n; i++) {
        uint8_t *row = to + places[3 + i];
        for (int64_t h = 0; h < num_heads; h++)
            row = store(weights + (i * num_heads + h) * length, lengths[i], row, as_half);
    }
    if (places[3 + n] >= 0) store(out, n * num_heads * v_width, to + places[3 + n], as_half);
}
