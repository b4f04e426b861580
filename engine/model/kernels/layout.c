/* Encodes a step's layers as bytes of the log (msgpack, see engine/trace/codec.py), with gaps for arrays' numbers. */
#include <string.h>

#include "capture.h"

/* Bytes that are the same in every layer, from engine/trace/encoded.py; each precedes the value it is named for. */
typedef struct {
    const uint8_t *bytes;
    int64_t length;
} Piece;
enum { LAYER, LAYER_WITH_OUT, Q, K, V, ROWS, SEQ_ID, QUERY_START, KEY_START, WEIGHTS, WEIGHTS_FULL, WEIGHTS_LAST, OUT };

typedef struct {
    uint8_t *to; /* NULL: bytes are only counted */
    int64_t at;
} Writer;

static void put(Writer *w, const void *bytes, int64_t length) {
    if (w->to) memcpy(w->to + w->at, bytes, length);
    w->at += length;
}

static void piece(Writer *w, const Piece *p) { put(w, p->bytes, p->length); }

/* Writes `type` if it is not 0, and the lowest `bytes` bytes of a number in big-endian order. */
static void big_endian(Writer *w, int type, uint64_t number, int bytes) {
    uint8_t written[9] = {(uint8_t)type};
    for (int i = 0; i < bytes; i++) written[1 + i] = (uint8_t)(number >> (8 * (bytes - 1 - i)));
    put(w, type ? written : written + 1, bytes + !!type);
}

static void natural(Writer *w, uint64_t number) {
    if (number < 1 << 7)
        big_endian(w, 0, number, 1);
    else if (number < 1 << 8)
        big_endian(w, 0xcc, number, 1);
    else if (number < 1 << 16)
        big_endian(w, 0xcd, number, 2);
    else
        number >> 32 ? big_endian(w, 0xcf, number, 8) : big_endian(w, 0xce, number, 4);
}

static void list(Writer *w, uint64_t length) {
    if (length < 16)
        big_endian(w, 0, 0x90 | length, 1);
    else
        length >> 16 ? big_endian(w, 0xdd, length, 4) : big_endian(w, 0xdc, length, 2);
}

/* Writes the header of a three-dimensional array and skips its numbers. Returns their offset. */
static int64_t array(Writer *w, int as_half, int64_t a, int64_t b, int64_t c) {
    int64_t size = a * b * c * (as_half ? 2 : 4);
    uint64_t length = 2 + 3 * 4 + size;
    if (length == 16)
        big_endian(w, 0xd8, 0, 0);
    else if (length < 1 << 8)
        big_endian(w, 0xc7, length, 1);
    else
        length >> 16 ? big_endian(w, 0xc9, length, 4) : big_endian(w, 0xc8, length, 2);
    uint8_t head[15] = {1 /* ARRAY_EXT */, as_half ? 1 : 2, 3};
    int64_t shape[3] = {a, b, c};
    for (int i = 0; i < 12; i++) head[3 + i] = (uint8_t)(shape[i / 4] >> (8 * (i % 4)));
    put(w, head, 15);
    int64_t begin = w->at;
    w->at += size;
    return begin;
}

/* Writes a slice's attention rows, `heads` heads with `count` queries each. Returns the offset of their weights. */
static int64_t rows(Writer *w, const Piece *pieces, int weights, int64_t seq_id, int64_t query, int64_t first_key,
                    int as_half, int64_t heads, int64_t count, int64_t length) {
    piece(w, pieces + SEQ_ID), natural(w, seq_id);
    piece(w, pieces + QUERY_START), natural(w, query);
    piece(w, pieces + KEY_START), natural(w, first_key);
    piece(w, pieces + weights);
    return array(w, as_half, heads, count, length);
}

/* Lays out the layers of a step. All numbers are int64. Layers of one kind have the same shape and reach.
 *
 * model     Hq; 1 for float16, 0 for float32; number of layers, of kinds, of heads with every row; Hkv, D, Dv per kind;
 *           `order` per head as in `Form`
 * step      number of slices, of tokens, of layers to lay out; per kind `longest` as in `Form`; per slice its id, the
 *           position of its first new token and its number of new tokens; per kind and slice the first key; per layer
 *           its number, its kind, and flags (1: with out, 2: with every row of prefills)
 *           output, written here: per layer of the model the addresses of its bytes and of its form (unchanged if it is
 *           not laid out); 4 forms per kind
 * to        address of the bytes, or NULL to count them only
 *
 * Returns the number of bytes.
 */
int64_t lay_out(const Piece *pieces, const int64_t *model, int64_t *step, uint8_t *to) {
    int64_t heads = model[0], as_half = model[1], num_kinds = model[3], n = step[0], num_layers = step[2];
    const int64_t *longest = step + 3, *slices = longest + num_kinds, *first_keys = slices + 3 * n;
    const int64_t *layer = first_keys + num_kinds * n;
    int64_t *captured = (int64_t *)layer + 3 * num_layers;
    uint8_t *forms = (uint8_t *)(captured + 2 * model[2]);
    Writer writer = {to, 0}, *w = &writer;
    list(w, num_layers);
    for (int64_t l = 0; l < num_layers; l++, layer += 3) {
        int64_t kind = layer[1], with_out = layer[2] & 1, num_full = layer[2] & 2 ? model[4] : 0, num_rows = 0;
        const int64_t *shape = model + 5 + 3 * kind, *starts = first_keys + kind * n;
        Form ignored, *form = &ignored;
        if (to) form = (Form *)(forms + (4 * kind + layer[2]) * (sizeof(Form) + n * sizeof(CapturedSlice)));
        *form = (Form){n, step[1], heads, shape[0], shape[1], shape[2], longest[kind], as_half, num_full,
                       model + 5 + 3 * num_kinds, 0, 0, 0, -1};
        piece(w, pieces + (with_out ? LAYER_WITH_OUT : LAYER));
        natural(w, layer[0]);
        int64_t begin = w->at, *places[3] = {&form->q, &form->k, &form->v};
        for (int i = 0; i < 3; i++) {
            piece(w, pieces + Q + i);
            *places[i] = array(w, as_half, step[1], i ? shape[0] : heads, shape[i == 2 ? 2 : 1]) - begin;
        }
        piece(w, pieces + ROWS);
        for (int64_t i = 0; i < n; i++) num_rows += 1 + (slices[3 * i + 2] > 1 && num_full && num_full < heads);
        list(w, num_rows);
        for (int64_t i = 0; i < n; i++) {
            int64_t id = slices[3 * i], position = slices[3 * i + 1], tokens = slices[3 * i + 2], first = starts[i];
            int64_t full_heads = tokens > 1 ? num_full : 0, end = position + tokens, length = end - first;
            CapturedSlice slice = {tokens, length, -1, -1};
            if (full_heads)
                slice.full = rows(w, pieces, full_heads == heads ? WEIGHTS : WEIGHTS_FULL, id, position, first, as_half,
                                  full_heads, tokens, length) - begin;
            if (full_heads < heads)
                slice.last = rows(w, pieces, full_heads ? WEIGHTS_LAST : WEIGHTS, id, end - 1, first, as_half,
                                  heads - full_heads, 1, length) - begin;
            if (to) form->slices[i] = slice;
        }
        if (with_out) {
            piece(w, pieces + OUT);
            form->out = array(w, as_half, step[1], heads, shape[2]) - begin;
        }
        if (to) {
            captured[2 * layer[0]] = (int64_t)(intptr_t)(to + begin);
            captured[2 * layer[0] + 1] = (int64_t)(intptr_t)form;
        }
    }
    return w->at;
}
