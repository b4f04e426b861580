/* Attention over the paged pool: functions that attend.c and Python call. */
#include "capture.h"

#define SERIAL_BELOW (1 << 17) /* a loop that reads fewer numbers is serial; waking other threads would take longer */

/* A sequence with several new tokens. All numbers and the address are int64. */
typedef struct {
    int64_t begin, end;    /* packed tokens */
    int64_t first, length; /* index of the first token's own key, and number of keys */
    const int64_t *slots;  /* [length] */
    int64_t before;        /* number of weights per head in the preceding spans */
    int64_t slice;         /* index of the sequence in the step */
} Span;

void decode_attention(const float *, int64_t, int64_t, const int64_t *, const float *, const float *, const int64_t *,
                      int64_t, const uint8_t *, const float *, float *, float *, int64_t, int64_t, int64_t, int64_t,
                      int64_t, int64_t, float, float, int);
int prefill_spans(const float *, int64_t, int64_t, const float *, const float *, const Span *, int64_t, const float *,
                  float *, uint8_t *, const Form *, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, float, float,
                  int);
