/* Layout of a captured layer in the bytes of the log, which layout.c creates and the other kernels fill. */
#ifndef CAPTURE_H
#define CAPTURE_H
#include <stdint.h>

/* All numbers and addresses are int64. Offsets are in bytes. */
typedef struct {
    int64_t num_tokens; /* new tokens of the sequence, t */
    int64_t length;     /* keys from the first one that its first query sees, C */
    int64_t full, last; /* offsets of weights: [heads, t, C] of `num_full` heads, [heads, 1, C] of the others */
} CapturedSlice;

typedef struct {
    int64_t num_slices, num_tokens, num_heads, num_kv_heads, width, v_width;
    int64_t longest; /* number of keys of a decoding sequence, including padding */
    int64_t as_half; /* 1: numbers are rounded to float16, to nearest, ties to even; 0: they are float32 */
    int64_t num_full; /* number of heads whose rows are all captured in a prefill */
    const int64_t *order; /* rank of each head, those `num_full` heads first; NULL: the rank is the index */
    int64_t q, k, v, out; /* offsets; out: -1 = it is not captured */
    CapturedSlice slices[];
} Form;

/* Returns the address for a row of a slice's weights, or NULL if it is not captured. A decode's only row always is. */
static inline uint8_t *captured_row(const Form *form, const CapturedSlice *slice, uint8_t *to, int64_t head,
                                    int64_t row) {
    int64_t size = slice->length * (form->as_half ? 2 : 4), tokens = slice->num_tokens;
    int64_t num_full = tokens > 1 ? form->num_full : 0, place = num_full && form->order ? form->order[head] : head;
    if (place < num_full) return to + slice->full + (place * tokens + row) * size;
    return row == tokens - 1 ? to + slice->last + (place - num_full) * size : 0;
}

/* Writes `count` numbers to `to`, which need not be aligned; returns the address after them. */
uint8_t *store_numbers(const float *from, int64_t count, uint8_t *to, int as_half);
void store_layer(const float *q, const float *k, const float *v, const float *weights, const float *out, uint8_t *to,
                 const Form *form, const int64_t *strides, int num_threads);
#endif
