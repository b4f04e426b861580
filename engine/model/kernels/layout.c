/* A decode step's layers as the log's bytes, with gaps where the numbers will be: msgpack, arrays as engine/trace/codec.py
 * has them.
 */
#include <stdint.h>
#include <string.h>

/* What is the same in every layer, as engine/trace/encoded.py gives it: `bytes` are followed by what their name says. */
typedef struct {
    const uint8_t *bytes;
    int64_t length;
} Piece;
enum { LAYER, LAYER_WITH_OUT, Q, K, V, ROWS, SEQ_ID, QUERY_START, KEY_START, WEIGHTS, OUT };

typedef struct {
    uint8_t *to; /* NULL: bytes are only counted */
    int64_t at;
} Writer;

static void put(Writer *w, const void *bytes, int64_t length) {
    if (w->to) memcpy(w->to + w->at, bytes, length);
    w->at += length;
}

static void piece(Writer *w, const Piece *p) { put(w, p->bytes, p->length); }

/* `type` if it is not 0, and the last `bytes` bytes of a number, the highest first. */
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

/* An array of three dimensions with its numbers still to come. Returns where they begin. */
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

/* Lays out the layers of a step of n sequences with one new token each. All numbers are int64; layers of one kind have one
 * shape and see as far.
 *
 * model     Hq, whether numbers are float16 (else float32), number of layers, of kinds; Hkv, D, Dv of each kind
 * step      n, number of layers to lay out; L of each kind; n ids; n positions of the new tokens; of each kind n first
 *           keys; of each layer: number, kind, whether what attention gave is kept
 *           then what is written here: 2 numbers of each layer of the model, where `store_decode` writes it and its form,
 *           left as they are where it is not kept; 2 forms of each kind, without and with what attention gave, each of
 *           11 + 2 n: `form` of `store_decode`
 * to        where the bytes go, or NULL: they are only counted
 *
 * Returns the number of bytes.
 */
int64_t lay_out(const Piece *pieces, const int64_t *model, int64_t *step, uint8_t *to) {
    int64_t heads = model[0], as_half = model[1], num_kinds = model[3], n = step[0], num_layers = step[1];
    const int64_t *longest = step + 2, *ids = longest + num_kinds, *positions = ids + n, *first_keys = positions + n;
    const int64_t *layer = first_keys + num_kinds * n;
    int64_t *captured = (int64_t *)layer + 3 * num_layers, *forms = captured + 2 * model[2];
    Writer writer = {to, 0}, *w = &writer;
    list(w, num_layers);
    for (int64_t l = 0; l < num_layers; l++, layer += 3) {
        int64_t kind = layer[1], with_out = layer[2];
        const int64_t *shape = model + 4 + 3 * kind, *starts = first_keys + kind * n;
        piece(w, pieces + (with_out ? LAYER_WITH_OUT : LAYER));
        natural(w, layer[0]);
        int64_t begin = w->at, *form = forms + (2 * kind + with_out) * (11 + 2 * n), *lengths = form + 7;
        int64_t *places = lengths + n, ignored[3];
        if (!to) places = ignored;
        for (int i = 0; i < 3; i++) {
            piece(w, pieces + Q + i);
            places[i] = array(w, as_half, n, i ? shape[0] : heads, shape[i == 2 ? 2 : 1]) - begin;
        }
        piece(w, pieces + ROWS);
        list(w, n);
        for (int64_t i = 0; i < n; i++) {
            int64_t length = positions[i] + 1 - starts[i];
            piece(w, pieces + SEQ_ID), natural(w, ids[i]);
            piece(w, pieces + QUERY_START), natural(w, positions[i]);
            piece(w, pieces + KEY_START), natural(w, starts[i]);
            piece(w, pieces + WEIGHTS);
            int64_t place = array(w, as_half, heads, 1, length) - begin;
            if (to) lengths[i] = length, places[3 + i] = place;
        }
        int64_t out = -1;
        if (with_out) {
            piece(w, pieces + OUT);
            out = array(w, as_half, n, heads, shape[2]) - begin;
        }
        if (to) {
            int64_t known[7] = {n, heads, shape[0], shape[1], shape[2], longest[kind], as_half};
            memcpy(form, known, sizeof known);
            places[3 + n] = out;
            captured[2 * layer[0]] = (int64_t)(intptr_t)(to + begin);
            captured[2 * layer[0] + 1] = (int64_t)(intptr_t)form;
        }
    }
    return w->at;
}
