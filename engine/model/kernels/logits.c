/* Summary statistics of each row of float32 logits. */
#include "vectors.h"

#define GROUP 64

/* Inserts a value into a descending list of the `count` largest values, ties by id, whose length is `size`. Returns the
 * new length.
 */
static inline int64_t insert(int64_t *ids, double *values, int64_t size, int64_t count, int64_t id, float value) {
    if (size == count && !(value > values[count - 1])) return size;
    int64_t place = size < count ? size++ : count - 1;
    for (; place > 0 && value > values[place - 1]; place--) {
        ids[place] = ids[place - 1];
        values[place] = values[place - 1];
    }
    ids[place] = id;
    values[place] = value;
    return size;
}

/* Finds the `count` largest of x [width], which are in groups whose maximum is at least the count-th largest maximum.
 */
static void largest(const float *x, int64_t width, int64_t count, int64_t *ids, double *values) {
    int64_t num_groups = (width + GROUP - 1) / GROUP, num_found = 0;
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
        num_found = insert(ids, values, num_found, count, g, found);
    }
    float bound = num_found == count ? values[count - 1] : -INFINITY;
    num_found = 0;
    for (int64_t g = 0; g < num_groups; g++) {
        if (maxima[g] < bound) continue;
        int64_t end = (g + 1) * GROUP < width ? (g + 1) * GROUP : width;
        for (int64_t i = g * GROUP; i < end; i++)
            if (!(x[i] < bound)) num_found = insert(ids, values, num_found, count, i, x[i]);
    }
    free(maxima);
}

/* Writes for each row of logits [rows, width] the log of the sum of e^x to total [rows], and ids and log probabilities
 * [rows, count] of the `count` most probable tokens.
 */
void summarize_logits(const float *logits, int64_t rows, int64_t width, int64_t count, float *total, int64_t *ids,
                      double *logprobs, int num_threads) {
    (void)num_threads;
#pragma omp parallel for num_threads(num_threads) if (num_threads > 1)
    for (int64_t row = 0; row < rows; row++) {
        const float *x = logits + row * width;
        double *best = logprobs + row * count; /* contains logits at first */
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
