/* Attention over the paged pool on the CPU, in float32. */
#include "attention.h"
#include "vectors.h"

#define AHEAD 12 /* keys from the current one to the prefetched one */
#define ROWS 8   /* queries that share loaded keys and values */

/* Prefetches the vector of a later key. Blocks are scattered, so the processor cannot predict its address. */
static inline void fetch(const float *x, int64_t width) {
    for (int64_t i = 0; i < width; i += LANES) __builtin_prefetch(x + i);
}

/* out [heads] = scaling times the products of `heads` queries with one key. `heads` is a constant after inlining. */
static inline __attribute__((always_inline)) void score(int64_t heads, const float *q, int64_t q_head, const float *key,
                                                        int64_t width, float scaling, float *out, int64_t out_head) {
    vector sums[4] = {0};
    int64_t i = 0;
    for (; i + LANES <= width; i += LANES)
        for (int64_t h = 0; h < heads; h++)
            sums[h] += *(const vector *)(q + h * q_head + i) * *(const vector *)(key + i);
    for (int64_t h = 0; h < heads; h++) {
        float sum = sum_of(sums[h]);
        if (i < width)
            for (int64_t d = i; d < width; d++) sum += q[h * q_head + d] * key[d];
        out[h * out_head] = sum * scaling;
    }
}

/* out [heads, 16 parts] = weights [heads, count] times 16 parts columns of the values in `slots`, with sums in
 * registers. `heads` and `parts` are constants after inlining, at most 4 and 2.
 */
static inline __attribute__((always_inline)) void mix(int64_t heads, int64_t parts, const float *weights,
                                                      int64_t weights_head, const float *values, int64_t stride,
                                                      const int64_t *slots, const uint8_t *hidden, int64_t count,
                                                      float *out, int64_t out_head) {
    vector sums[4][2] = {0};
    for (int64_t j = 0; j < count; j++) {
        if (hidden && hidden[j]) continue; /* the slot may be free */
        const float *value = values + slots[j] * stride;
        if (j + AHEAD < count) fetch(values + slots[j + AHEAD] * stride, parts * LANES);
        for (int64_t h = 0; h < heads; h++)
            for (int64_t p = 0; p < parts; p++)
                sums[h][p] += weights[h * weights_head + j] * *(const vector *)(value + p * LANES);
    }
    for (int64_t h = 0; h < heads; h++)
        for (int64_t p = 0; p < parts; p++) *(vector *)(out + h * out_head + p * LANES) = sums[h][p];
}

/* Replaces scores [L] by weights; the sum of e^(score - max) includes the sink if there is one. */
static void softmax(float *scores, int64_t length, const float *sink) {
    float largest = sink ? *sink : HIDDEN;
    vector sums = {0}, part, lanes = largest - sums;
    int64_t i = 0;
    for (; i + LANES <= length; i += LANES) lanes = larger(*(const vector *)(scores + i), lanes);
    for (int64_t lane = 0; lane < LANES; lane++) largest = lanes[lane] > largest ? lanes[lane] : largest;
    for (; i < length; i++) largest = scores[i] > largest ? scores[i] : largest;
    for (i = 0; i + LANES <= length; i += LANES) {
        part = exp_of(*(const vector *)(scores + i) - largest);
        *(vector *)(scores + i) = part;
        sums += part;
    }
    if (i < length) {
        for (int64_t lane = 0; lane < LANES; lane++) part[lane] = i + lane < length ? scores[i + lane] : HIDDEN;
        part = exp_of(part - largest);
        memcpy(scores + i, &part, 4 * (length - i));
        sums += part;
    }
    float sum = sum_of(sums) + (sink ? expf(*sink - largest) : 0);
    float share = 1 / sum;
    for (int64_t j = 0; j < length; j++) scores[j] *= share;
}

/* Attention of sequences with one new token each.
 *
 *     scores  = softcap(q k^T * scaling), without hidden keys
 *     weights = softmax(scores), including a sink's logit if there is one
 *     out     = weights v
 *
 * Keys and values are read in place, slot by slot. A task is one sequence and one KV head, whose query heads share each
 * loaded key.
 *
 * q [T, Hq, D] with strides; tokens [n]: the token of each sequence (NULL: T = n, in order); k_pool [slots, Hkv, D] and
 * v_pool [slots, Hkv, Dv], contiguous; slots [n, L] with a row stride; mask [n, L], nonzero = hidden, or NULL; sinks
 * [Hq] or NULL; softcap 0 = none; out [T, Hq, Dv]; weights [n, Hq, L].
 */
void decode_attention(const float *q, int64_t q_token, int64_t q_head, const int64_t *tokens, const float *k_pool,
                      const float *v_pool, const int64_t *slots, int64_t slots_row, const uint8_t *mask,
                      const float *sinks, float *out, float *weights, int64_t n, int64_t num_heads,
                      int64_t num_kv_heads, int64_t width, int64_t v_width, int64_t length, float scaling,
                      float softcap, int num_threads) {
    int64_t group = num_heads / num_kv_heads;
    (void)num_threads;
#pragma omp parallel for schedule(dynamic) num_threads(num_threads) if (num_threads > 1)
    for (int64_t task = 0; task < n * num_kv_heads; task++) {
        int64_t row = task / num_kv_heads, kv_head = task % num_kv_heads, first = kv_head * group, count = length;
        int64_t token = tokens ? tokens[row] : row;
        const int64_t *own = slots + row * slots_row;
        const uint8_t *hidden = mask ? mask + row * length : 0;
        while (hidden && count && hidden[count - 1]) count--; /* padding */
        float *scores = weights + (row * num_heads + first) * length;
        for (int64_t j = 0; j < count; j++) {
            if (hidden && hidden[j]) {
                for (int64_t g = 0; g < group; g++) scores[g * length + j] = HIDDEN;
                continue;
            }
            const float *key = k_pool + (own[j] * num_kv_heads + kv_head) * width;
            if (j + AHEAD < count) fetch(k_pool + (own[j + AHEAD] * num_kv_heads + kv_head) * width, width);
            const float *queries = q + token * q_token + first * q_head;
            int64_t g = 0;
            for (; g + 4 <= group; g += 4)
                score(4, queries + g * q_head, q_head, key, width, scaling, scores + g * length + j, length);
            queries += g * q_head;
            float *rest = scores + g * length + j;
            if (group - g == 3) score(3, queries, q_head, key, width, scaling, rest, length);
            else if (group - g == 2) score(2, queries, q_head, key, width, scaling, rest, length);
            else if (group - g == 1) score(1, queries, q_head, key, width, scaling, rest, length);
            if (softcap != 0)
                for (g = 0; g < group; g++) scores[g * length + j] = softcap * tanhf(scores[g * length + j] / softcap);
        }
        for (int64_t g = 0; g < group; g++) {
            softmax(scores + g * length, count, sinks ? sinks + first + g : 0);
            memset(scores + g * length + count, 0, 4 * (length - count));
        }
        const float *values = v_pool + kv_head * v_width;
        float *result = out + (token * num_heads + first) * v_width;
        int64_t stride = num_kv_heads * v_width, d = 0, g;
        for (; d + 2 * LANES <= v_width; d += 2 * LANES) {
            for (g = 0; g + 4 <= group; g += 4)
                mix(4, 2, scores + g * length, length, values + d, stride, own, hidden, count, result + g * v_width + d,
                    v_width);
            const float *rest = scores + g * length;
            float *to = result + g * v_width + d;
            if (group - g == 3) mix(3, 2, rest, length, values + d, stride, own, hidden, count, to, v_width);
            else if (group - g == 2) mix(2, 2, rest, length, values + d, stride, own, hidden, count, to, v_width);
            else if (group - g == 1) mix(1, 2, rest, length, values + d, stride, own, hidden, count, to, v_width);
        }
        for (; d < v_width; d++)
            for (g = 0; g < group; g++) {
                float sum = 0;
                for (int64_t j = 0; j < count; j++)
                    if (!hidden || !hidden[j]) sum += scores[g * length + j] * values[own[j] * stride + d];
                result[g * v_width + d] = sum;
            }
    }
}

/* scores [ROWS, 16 parts] = scaling times the products of ROWS queries with the keys of `parts` panels [D, 16].
 * `parts`, a constant after inlining, is at most 2, so that the sums stay in registers.
 */
static inline __attribute__((always_inline)) void score_rows(int64_t parts, const float *const *queries,
                                                             const float *panels, int64_t width, float scaling,
                                                             float *scores, int64_t stride) {
    vector sums[ROWS][2] = {0};
    for (int64_t d = 0; d < width; d++)
        for (int64_t p = 0; p < parts; p++) {
            vector keys = *(const vector *)(panels + (p * width + d) * LANES);
            for (int64_t r = 0; r < ROWS; r++) sums[r][p] += queries[r][d] * keys;
        }
    for (int64_t r = 0; r < ROWS; r++)
        for (int64_t p = 0; p < parts; p++) *(vector *)(scores + r * stride + p * LANES) = sums[r][p] * scaling;
}

/* For each row, out [16 parts] = its weights [count] times 16 parts columns of the values in `slots`. `parts` is a
 * constant after inlining, at most 2.
 */
static inline __attribute__((always_inline)) void mix_rows(int64_t parts, const float *weights, int64_t stride,
                                                           const float *values, int64_t values_stride,
                                                           const int64_t *slots, int64_t count, float *const *out,
                                                           int64_t rows) {
    vector sums[ROWS][2] = {0};
    for (int64_t j = 0; j < count; j++) {
        const float *value = values + slots[j] * values_stride;
        for (int64_t p = 0; p < parts; p++) {
            vector numbers = *(const vector *)(value + p * LANES);
            for (int64_t r = 0; r < ROWS; r++) sums[r][p] += weights[r * stride + j] * numbers;
        }
    }
    for (int64_t r = 0; r < rows; r++)
        for (int64_t p = 0; p < parts; p++) *(vector *)(out[r] + p * LANES) = sums[r][p];
}

/* Attention of one sequence's queries; the key of the first query has index `first`. A query sees the keys up to its
 * own, under a window (0 = none) only the last `window` and first `num_sinks`. Other keys may be read; all are finite.
 *
 * Keys are transposed once into panels [D, 16]. A task is ROWS queries of one head, which share loaded keys.
 *
 * q [t, Hq, D] with strides; pools as above; slots [C]; sinks [Hq] or NULL; out [t, Hq, Dv]. Weights are written where
 * `captured_row` places their rows, or not at all if `form` is NULL. Returns 0, or 1 if it is out of memory.
 */
static int prefill_attention(const float *q, int64_t q_token, int64_t q_head, const float *k_pool, const float *v_pool,
                             const int64_t *slots, const float *sinks, float *out, uint8_t *to, const Form *form,
                             const CapturedSlice *slice, int64_t first, int64_t window, int64_t num_sinks,
                             int64_t num_heads, int64_t num_kv_heads, int64_t width, int64_t v_width, float scaling,
                             float softcap, int num_threads) {
    int64_t tokens = slice->num_tokens, length = slice->length;
    int64_t num_panels = (length + LANES - 1) / LANES, stride = num_panels * LANES, group = num_heads / num_kv_heads;
    int64_t tiles = (tokens + ROWS - 1) / ROWS;
    int failed = 0;
    float *panels_of_keys = malloc(sizeof(float) * num_kv_heads * stride * width);
    if (!panels_of_keys) return 1;
    (void)num_threads;
#pragma omp parallel num_threads(num_threads) if (num_threads > 1)
    {
#pragma omp for schedule(static)
        for (int64_t task = 0; task < num_kv_heads * num_panels; task++) {
            int64_t kv_head = task / num_panels, begin = task % num_panels * LANES;
            float *panel = panels_of_keys + task * width * LANES;
            for (int64_t lane = 0; lane < LANES; lane++) {
                int64_t j = begin + lane < length ? begin + lane : length - 1;
                const float *key = k_pool + (slots[j] * num_kv_heads + kv_head) * width;
                for (int64_t d = 0; d < width; d++) panel[d * LANES + lane] = key[d];
            }
        }
        float *scores = malloc(sizeof(float) * ROWS * stride);
        if (!scores) failed = 1;
#pragma omp for schedule(dynamic)
        for (int64_t task = 0; task < tiles * num_heads; task++) {
            if (!scores) continue;
            int64_t head = task % num_heads, begin = (tiles - 1 - task / num_heads) * ROWS; /* the longest first */
            int64_t rows = tokens - begin < ROWS ? tokens - begin : ROWS, end = first + begin + rows;
            int64_t unseen = window && !num_sinks && first + begin >= window ? first + begin - window + 1 : 0;
            int64_t lo = unseen / LANES * LANES, panel = lo / LANES, last = (end + LANES - 1) / LANES;
            const float *queries[ROWS], *panels = panels_of_keys + head / group * num_panels * width * LANES;
            float *results[ROWS];
            for (int64_t r = 0; r < ROWS; r++) {
                int64_t token = begin + (r < rows ? r : rows - 1);
                queries[r] = q + token * q_token + head * q_head;
                results[r] = out + (token * num_heads + head) * v_width;
            }
            for (; panel + 2 <= last; panel += 2)
                score_rows(2, queries, panels + panel * width * LANES, width, scaling, scores + panel * LANES, stride);
            if (panel < last)
                score_rows(1, queries, panels + panel * width * LANES, width, scaling, scores + panel * LANES, stride);
            for (int64_t r = 0; r < rows; r++) {
                float *own = scores + r * stride;
                int64_t count = first + begin + r + 1;
                if (softcap != 0)
                    for (int64_t j = lo; j < count; j++) own[j] = softcap * tanhf(own[j] / softcap);
                if (window)
                    for (int64_t j = lo > num_sinks ? lo : num_sinks; j < count - window; j++) own[j] = HIDDEN;
                softmax(own + lo, count - lo, sinks ? sinks + head : 0);
                memset(own + count, 0, 4 * (end - count));
                uint8_t *row = form ? captured_row(form, slice, to, head, begin + r) : 0;
                if (row) {
                    int64_t size = form->as_half ? 2 : 4;
                    memset(row, 0, size * lo);
                    memset(store_numbers(own + lo, end - lo, row + size * lo, form->as_half), 0, size * (length - end));
                }
            }
            for (int64_t r = rows; r < ROWS; r++) memset(scores + r * stride + lo, 0, 4 * (end - lo));
            const float *values = v_pool + head / group * v_width;
            int64_t values_stride = num_kv_heads * v_width, d = 0;
            for (; d + 2 * LANES <= v_width; d += 2 * LANES) {
                mix_rows(2, scores + lo, stride, values + d, values_stride, slots + lo, end - lo, results, rows);
                for (int64_t r = 0; r < ROWS; r++) results[r] += 2 * LANES;
            }
            if (d + LANES <= v_width) {
                mix_rows(1, scores + lo, stride, values + d, values_stride, slots + lo, end - lo, results, rows);
                for (int64_t r = 0; r < ROWS; r++) results[r] += LANES;
                d += LANES;
            }
            for (int64_t rest = 0; d + rest < v_width; rest++)
                for (int64_t r = 0; r < rows; r++) {
                    float sum = 0;
                    for (int64_t j = lo; j < end; j++)
                        sum += scores[r * stride + j] * values[slots[j] * values_stride + d + rest];
                    results[r][rest] = sum;
                }
        }
        free(scores);
    }
    free(panels_of_keys);
    return failed;
}

/* Attention of several sequences: long ones by all threads, short ones by one thread each. q [T, Hq, D] with strides;
 * pools as above; sinks [Hq] or NULL; out [T, Hq, Dv]. Softmax weights are written to `to` unless it is NULL: in the
 * layout of `form`, or if that is NULL as float32, span after span [Hq, t, C]. Returns 0, or 1 if it is out of memory.
 */
int prefill_spans(const float *q, int64_t q_token, int64_t q_head, const float *k_pool, const float *v_pool,
                  const Span *spans, int64_t num_spans, const float *sinks, float *out, uint8_t *to, const Form *form,
                  int64_t window, int64_t num_sinks, int64_t num_heads, int64_t num_kv_heads, int64_t width,
                  int64_t v_width, float scaling, float softcap, int num_threads) {
    int failed = 0;
    const Form float32 = {.num_full = num_heads}; /* every row, heads in order */
    for (int all = 1; all >= 0; all--) {
        int64_t total = 0;
        for (int64_t i = 0; i < num_spans; i++) total += num_heads * (spans[i].end - spans[i].begin) * spans[i].length;
#pragma omp parallel for schedule(dynamic) reduction(| : failed) num_threads(num_threads) if (!all && total >= SERIAL_BELOW)
        for (int64_t i = 0; i < num_spans; i++) {
            const Span *span = spans + i;
            int64_t tokens = span->end - span->begin;
            if ((num_heads * tokens * span->length >= SERIAL_BELOW) != all) continue;
            int64_t offset = 4 * num_heads * span->before;
            CapturedSlice dense = {tokens, span->length, offset, offset};
            failed |= prefill_attention(q + span->begin * q_token, q_token, q_head, k_pool, v_pool, span->slots, sinks,
                                        out + span->begin * num_heads * v_width, to, form ? form : to ? &float32 : 0,
                                        form ? form->slices + span->slice : &dense, span->first, window, num_sinks,
                                        num_heads, num_kv_heads, width, v_width, scaling, softcap,
                                        all ? num_threads : 1);
        }
    }
    return failed;
}
