/* Layout of a captured layer in the bytes of the log, as layout.c makes it and the other kernels fill it. */
#ifndef CAPTURE_H
#define CAPTURE_H
#include <stdint.h>

/* All numbers are int64; addresses are, too. Offsets are in bytes. */
typedef struct {
    int64_t num_tokens; /* new tokens of the sequence, t */
    int64_t length;     /* keys from the first one that its first query sees, C */
    int64_t full, last; /* offsets of weights: [heads, t, C] of `num_full` heads, [heads, 1, C] of the others */
} CapturedSlice;

typedef struct {
    int64_t num_slices, num_tokens, num_heads, num_kv_heads, width, v_width;
    int64_t longest; /* keys of a decoding sequence, padded */
    int64_t as_half; /* numbers become float16, to the nearest, ties to even; 0: they stay float32 */
    int64_t num_full; /* heads of which every row of a prefill is captured */
    const int64_t *order; /* of each head: its place among those, or behind them among the others; NULL: in order */
    int64_t q, k, v, out; /* offsets; out: -1 = it is not captured */
    CapturedSlice slices[];
} Form;

/* Where a row of a slice's weights goes; NULL: it is not captured. A decode's only row is captured for all heads. */
static inline uint8_t *captured_row(const Form *form, const CapturedSlice *slice, uint8_t *to, int64_t head,
                                    int64_t row) {
    int64_t size = slice->length * (form->as_half ? 2 : 4), tokens = slice->num_tokens;
    int64_t num_full = tokens > 1 ? form->num_full : 0, place = num_full && form->order ? form->order[head] : head;
    if (place < num_full) return to + slice->full + (place * tokens + row) * size;
    return row == tokens - 1 ? to + slice->last + (place - num_full) * size : 0;
}

/* Writes `count` numbers to `to`, which need not be aligned; returns the address behind them. */
uint8_t *store_numbers(const float *from, int64_t count, uint8_t *to, int as_half);
void store_layer(const float *q, const float *k, const float *v, const float *weights, const float *out, uint8_t *to,
                 const Form *form, const int64_t *strides, int num_threads);
#endif
