/* Summary statistics of each row of logits. Float32. */
#include "vectors.h"

#define GROUP 64

/* Inserts a value into the `count` largest, in order, the first of equals first, of which there are `taken`. Returns their
 * number afterwards.
 */
static inline int64_t offer(int64_t *ids, double *values, int64_t taken, int64_t count, int64_t id, float value) {
    if (taken == count && !(value > values[count - 1])) return taken;
    int64_t place = taken < count ? taken++ : count - 1;
    for (; place > 0 && value > values[place - 1]; place--) {
        ids[place] = ids[place - 1];
        values[place] = values[place - 1];
    }
    ids[place] = id;
    values[place] = value;
    return taken;
}

/* The `count` largest of x [width]: they are in groups whose maximum is at least the count-th largest maximum. */
static void largest(const float *x, int64_t width, int64_t count, int64_t *ids, double *values) {
    int64_t num_groups = (width + GROUP - 1) / GROUP, taken = 0;
    float *maxima = malloc(sizeof(float) * num_groups);
    for (int64_t g = 0; g < num_groups; g++) {
        const float *own = x + g * GROUP;
        int64_t size = width - g * GROUP < GROUP ? width - g * GROUP : GROUP, i = LANES;
        float found = own[0];
        if (size >= LANES) {
            vector lanes = *(const vector *)own;
            for (; i + LANES <= size; i += LANES) lanes = larger(*(const vector *)(own + i), lanes);
            found = max_of(lanes);
        } else {
            i = 1;
        }
        for (; i < size; i++) found = own[i] > found ? own[i] : found;
        maxima[g] = found;
        taken = offer(ids, values, taken, count, g, found);
    }
    float bound = taken == count ? values[count - 1] : -INFINITY;
    taken = 0;
    for (int64_t g = 0; g < num_groups; g++) {
        if (maxima[g] < bound) continue;
        int64_t end = (g + 1) * GROUP < width ? (g + 1) * GROUP : width;
        for (int64_t i = g * GROUP; i < end; i++)
            if (!(x[i] < bound)) taken = offer(ids, values, taken, count, i, x[i]);
    }
    free(maxima);
}

/* Of each row of logits [rows, width]: total [rows] = log of the sum of e^x, and of the `count` most probable tokens
 * ids and log probabilities [rows, count].
 */
void summarize_logits(const float *logits, int64_t rows, int64_t width, int64_t count, float *total, int64_t *ids,
                      double *logprobs, int num_threads) {
    (void)num_threads;
#pragma omp parallel for num_threads(num_threads) if (num_threads > 1)
    for (int64_t row = 0; row < rows; row++) {
        const float *x = logits + row * width;
        double *best = logprobs + row * count; /* first the logits */
        largest(x, width, count, ids + row * count, best);
        float peak = best[0];
        vector sums = {0}, part;
        int64_t i = 0;
        for (; i + LANES <= width; i += LANES) sums += exp_of(*(const vector *)(x + i) - peak);
        for (int64_t lane = 0; lane < LANES; lane++) part[lane] = HIDDEN;
        memcpy(&part, x + i, 4 * (width - i));
        sums += exp_of(part - peak);
        total[row] = logf(sum_of(sums)) + peak;
        for (int64_t rank = 0; rank < count; rank++) best[rank] = (float)best[rank] - total[row];
    }
}
