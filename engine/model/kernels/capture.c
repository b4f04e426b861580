/* Rounds a layer's arrays and writes them to their place in the log's bytes. */
#include "capture.h"
#include "vectors.h"

typedef _Float16 rounded __attribute__((vector_size(2 * LANES), aligned(1), may_alias));

uint8_t *store_numbers(const float *from, int64_t count, uint8_t *to, int as_half) {
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

static void store_vectors(const float *x, const int64_t *strides, int64_t token, int64_t heads, int64_t width,
                          uint8_t *to, int as_half) {
    to += token * heads * width * (as_half ? 2 : 4);
    for (int64_t h = 0; h < heads; h++)
        to = store_numbers(x + token * strides[0] + h * strides[1], width, to, as_half);
}

/* Stores a layer except for the weights of prefills: q [T, Hq, D], k [T, Hkv, D], v [T, Hkv, Dv] with dense last
 * dimensions (`strides`: the first two of q, of k and of v), contiguous weights [n, Hq, L] of the slices with one new
 * token, and contiguous out [T, Hq, Dv].
 */
void store_layer(const float *q, const float *k, const float *v, const float *weights, const float *out, uint8_t *to,
                 const Form *form, const int64_t *strides, int num_threads) {
    int64_t num_heads = form->num_heads, v_width = form->v_width, as_half = form->as_half;
    const int64_t row[2] = {num_heads * v_width, v_width};
    (void)num_threads;
#pragma omp parallel for schedule(static) num_threads(num_threads) if (num_threads > 1)
    for (int64_t t = 0; t < form->num_tokens; t++) {
        store_vectors(q, strides, t, num_heads, form->width, to + form->q, as_half);
        store_vectors(k, strides + 2, t, form->num_kv_heads, form->width, to + form->k, as_half);
        store_vectors(v, strides + 4, t, form->num_kv_heads, v_width, to + form->v, as_half);
        if (form->out >= 0) store_vectors(out, row, t, num_heads, v_width, to + form->out, as_half);
    }
    for (const CapturedSlice *slice = form->slices; slice < form->slices + form->num_slices; slice++)
        if (slice->num_tokens == 1)
            for (int64_t h = 0; h < num_heads; h++, weights += form->longest)
                store_numbers(weights, slice->length, captured_row(form, slice, to, h, 0), as_half);
}

/* Stores the captured rows of a slice's contiguous weights [Hq, t, C]. */
void store_prefill(const float *weights, uint8_t *to, const Form *form, int64_t index) {
    const CapturedSlice *slice = form->slices + index;
    for (int64_t h = 0; h < form->num_heads; h++)
        for (int64_t row = 0; row < slice->num_tokens; row++, weights += slice->length) {
            uint8_t *place = captured_row(form, slice, to, h, row);
            if (place) store_numbers(weights, slice->length, place, form->as_half);
        }
}
