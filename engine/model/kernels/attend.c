/* Attention of compiled code, layer by layer: writes the keys and values of the step's tokens to their slots, then
 * computes attention for every query. Before the forward pass Python writes a layout of the step (addresses of the
 * pool, slots, keys), so a layer does not need the interpreter, which other threads use meanwhile.
 *
 * Layers of a step without a layout, or that are not float32, call Python (`fallback`).
 */
#include <time.h>

#include "attention.h"
#include "tensors.h"
#include "vectors.h"
#if defined(_OPENMP)
#include <omp.h>
#else
static int omp_get_max_threads(void) { return 1; }
static void omp_set_num_threads(int threads) { (void)threads; }
#endif

/* All numbers and addresses are int64. */
typedef struct {
    const int64_t *new_slots;  /* [T] */
    const int64_t *keys;       /* slots of the decoding sequences' keys [n, L] */
    int64_t keys_row;          /* row stride of `keys` */
    const uint8_t *mask;       /* [n, L] or NULL */
    int64_t length;            /* L */
    int64_t window, num_sinks; /* a query sees the last `window` keys (0 = all) and the first `num_sinks` keys */
    const Span *spans;
} Reach;

typedef struct {
    float *keys, *values; /* [slots, Hkv, D], [slots, Hkv, Dv] */
    int64_t num_kv_heads, width, v_width;
    int64_t window; /* window of the model's layer, -1 = none */
    int64_t reach;
} Layer;

typedef struct {
    uint8_t *to; /* address for the layer's arrays, NULL = they are not captured */
    const Form *form;
} Captured;

typedef struct {
    int64_t num_layers, num_tokens, num_decodes, num_spans, num_threads;
    const Layer *layers;
    const Reach *reaches;
    const int64_t *decode_tokens; /* [n], or NULL: every token decodes */
    float *weights;               /* buffer for n * Hq * L numbers of any layer */
    int64_t num_weights;          /* its size */
    const Captured *captured;     /* one per layer, or NULL */
} Step;

static _Thread_local const Step *step; /* layout of this thread's step, or NULL */
static _Thread_local int64_t num_called;
static _Thread_local int threads_before;
static _Thread_local int64_t spent[2]; /* wall time and CPU time of this thread from first to last layer, in ns */

typedef int32_t Fallback(tensor, tensor, tensor, int64_t, double, const int64_t *, const double *, const tensor *,
                          tensor *);
static Fallback *fallback;

void set_attend_fallback(Fallback *in_python) { fallback = in_python; }

/* Sets the number of threads of this thread's loops, including those of compiled code, until `end_step`. torch's own
 * function would also change the default of new threads.
 */
void begin_step(const Step *laid_out) {
    step = laid_out, num_called = spent[0] = spent[1] = 0;
    threads_before = omp_get_max_threads();
    omp_set_num_threads((int)step->num_threads);
}

/* Returns the number of computed layers. Writes `spent` to `time_spent`, zeros if another function computed a layer. */
int64_t end_step(int64_t *time_spent) {
    omp_set_num_threads(threads_before);
    int is_complete = step && num_called == step->num_layers;
    for (int i = 0; i < 2; i++) time_spent[i] = is_complete ? spent[i] : 0;
    step = 0;
    return num_called;
}

static void add_time(int sign) {
    struct timespec now[2];
    clock_gettime(CLOCK_MONOTONIC, now);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, now + 1);
    for (int i = 0; i < 2; i++) spent[i] += sign * (now[i].tv_sec * 1000000000LL + now[i].tv_nsec);
}

typedef struct {
    const float *data;
    const int64_t *sizes, *strides;
} View;

/* Writes a view of a float32 tensor [T, H, W] with dense rows. Returns 0, or 1 for any other tensor. */
static int view_of(tensor x, View *view) {
    int64_t dims, *sizes, *strides;
    int32_t kind;
    void *data;
    if (get_dim(x, &dims) || dims != 3 || get_dtype(x, &kind) || kind != FLOAT32) return 1;
    if (get_sizes(x, &sizes) || get_strides(x, &strides) || get_data(x, &data)) return 1;
    view->data = data, view->sizes = sizes, view->strides = strides;
    return strides[2] != 1 && sizes[2] != 1;
}

static void write_rows(View x, const int64_t *slots, float *pool, int threads) {
    int64_t heads = x.sizes[1], width = x.sizes[2];
    (void)threads;
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
    for (int64_t t = 0; t < x.sizes[0]; t++)
        for (int64_t h = 0; h < heads; h++)
            memcpy(pool + (slots[t] * heads + h) * width, x.data + t * x.strides[0] + h * x.strides[1], 4 * width);
}

static int threads_for(int64_t numbers) { return numbers >= SERIAL_BELOW ? (int)step->num_threads : 1; }

/* `kvtheater::attend` of compiled code: q [T, Hq, D], k [T, Hkv, D], v [T, Hkv, Dv] -> out [T, Hq, Dv].
 * Returns 0, or an error.
 */
int32_t aoti_torch_cpu_attend(tensor q_in, tensor k_in, tensor v_in, int64_t number, double scaling,
                              const int64_t *window, const double *softcap, const tensor *sinks_in, tensor *out) {
    View q, k, v;
    void *sinks = 0, *to;
    int is_laid_out = step && number >= 0 && number < step->num_layers && !view_of(q_in, &q) &&
                !view_of(k_in, &k) && !view_of(v_in, &v) && step->layers[number].window == (window ? *window : -1);
    if (!is_laid_out) return fallback(q_in, k_in, v_in, number, scaling, window, softcap, sinks_in, out);
    if (!num_called) add_time(-1);
    const Layer *layer = step->layers + number;
    const Reach *reach = step->reaches + layer->reach;
    int64_t tokens = step->num_tokens, heads = q.sizes[1], kv_heads = layer->num_kv_heads;
    if (step->num_decodes * heads * reach->length > step->num_weights) return 1;
    if (q.sizes[0] != tokens || q.sizes[2] != layer->width || heads % kv_heads) return 1;
    if (k.sizes[0] != tokens || k.sizes[1] != kv_heads || k.sizes[2] != layer->width) return 1;
    if (v.sizes[0] != tokens || v.sizes[1] != kv_heads || v.sizes[2] != layer->v_width) return 1;
    int64_t shape[3] = {tokens, heads, layer->v_width}, dense[3] = {heads * layer->v_width, layer->v_width, 1};
    if (make_empty(3, shape, dense, FLOAT32, CPU, 0, out) || get_data(*out, &to)) return 1;
    if (sinks_in && get_data(*sinks_in, &sinks)) return 1;
    write_rows(k, reach->new_slots, layer->keys, threads_for(tokens * kv_heads * layer->width));
    write_rows(v, reach->new_slots, layer->values, threads_for(tokens * kv_heads * layer->v_width));
    float cap = softcap ? *softcap : 0;
    const Captured *captured = step->captured && step->captured[number].to ? step->captured + number : 0;
    const Form *form = captured ? captured->form : 0;
    if (form && (form->num_tokens != tokens || form->num_heads != heads || form->longest != reach->length)) return 1;
    if (step->num_spans &&
        prefill_spans(q.data, q.strides[0], q.strides[1], layer->keys, layer->values, reach->spans, step->num_spans,
                      sinks, to, captured ? captured->to : 0, form, reach->window, reach->num_sinks, heads, kv_heads,
                      layer->width, layer->v_width, scaling, cap, step->num_threads))
        return 1;
    if (step->num_decodes)
        decode_attention(q.data, q.strides[0], q.strides[1], step->decode_tokens, layer->keys, layer->values,
                         reach->keys, reach->keys_row, reach->mask, sinks, to, step->weights, step->num_decodes, heads,
                         kv_heads, layer->width, layer->v_width, reach->length, scaling, cap,
                         threads_for(step->num_decodes * heads * reach->length * layer->width));
    if (form) {
        const int64_t strides[6] = {q.strides[0], q.strides[1], k.strides[0], k.strides[1], v.strides[0], v.strides[1]};
        store_layer(q.data, k.data, v.data, step->weights, to, captured->to, form, strides,
                    threads_for(tokens * heads * layer->width));
    }
    if (++num_called == step->num_layers) add_time(1);
    return 0;
}
