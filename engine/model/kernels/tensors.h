/* Pointers to torch's C functions, set in each library by `use_torch`, so that no library is linked against torch. */
#include <stdint.h>

#define INT4 0 /* torch's numbers of dtypes (uint8: two weights of 4 bits) and of the device */
#define INT8 1
#define INT64 4
#define FLOAT32 6
#define BFLOAT16 15
#define CPU 0

typedef void *tensor;
static int32_t (*get_data)(tensor, void **), (*get_dim)(tensor, int64_t *), (*get_dtype)(tensor, int32_t *);
static int32_t (*get_sizes)(tensor, int64_t **), (*get_strides)(tensor, int64_t **);
static int32_t (*make_empty)(int64_t, const int64_t *, const int64_t *, int32_t, int32_t, int32_t, tensor *);

/* Sets the pointers. Returns whether this build has OpenMP. */
int use_torch(void *data, void *dim, void *dtype, void *sizes, void *strides, void *empty) {
    get_data = data, get_dim = dim, get_dtype = dtype, get_sizes = sizes, get_strides = strides, make_empty = empty;
#if defined(_OPENMP)
    return 1;
#else
    return 0;
#endif
}
