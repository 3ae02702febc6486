/* One more token through a decoder of blocks, in one call and by one team of threads.
 *
 * Weights are f32, bf16, or int8 with one factor a row; everything else is f32. Each weight is read once for all rows of a
 * batch. A norm is cheap, so that every thread computes it for itself; after each product the threads meet.
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "norm.h"
#if defined(__AVX2__)
#include <immintrin.h>
#endif

typedef struct {
    const float *plain;     /* (rows, columns); one of these three is there */
    const uint16_t *half;   /* bf16: the upper half of an f32 */
    const int8_t *whole;    /* times a factor a row */
    const float *factors;
    const float *bias;      /* (rows) or NULL */
    int64_t rows, columns;
} Matrix;

typedef struct {
    Matrix project, output, inner, outer;
    const float *before_scale, *before_shift; /* of the norm before attention; NULL: RMSNorm, its scale is in the matrix */
    const float *after_scale, *after_shift;
    const float *small_norm;                  /* (heads + key_heads, head_width) or NULL */
} Layer;

typedef struct {
    int64_t layers, width, heads, key_heads, head_width, hidden, vocabulary, gated;
    float epsilon, small_epsilon, scale;
    const float *cosines, *sines;             /* (context, head_width), or NULL */
    const float *final_scale, *final_shift;
    Matrix head;
    const Layer *layer;
} Model;

#define ROWS 4     /* of a matrix at a time: as many sums run side by side */
#define AHEAD 2048 /* bytes of a matrix that are asked for before their turn: rows are short, and memory is far */

/* A vector, made ready for the format of the weights it will meet:
 *   f32    as it is
 *   bf16   even places, then odd ones: two halves lie in one word, and each is an f32 when the other is masked out
 *   int8   whole numbers of 16 bits times one factor, so that products and sums are of whole numbers (3e-5 of the largest)
 */
typedef struct {
    const void *values;
    float factor;
} Vector;

static Vector ready(const Matrix *m, const float *x, void *aside) {
    const int64_t n = m->columns;
    Vector made = {x, 1.0f};
    if (m->half) {
        float *y = aside;
        for (int64_t i = 0; i < n / 2; i++) { y[i] = x[2 * i]; y[n / 2 + i] = x[2 * i + 1]; }
        made.values = y;
    } else if (m->whole) {
        int16_t *y = aside;
        float most = 0;
        for (int64_t i = 0; i < n; i++) most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
        made.factor = most / 32767.0f;
        const float inverse = most > 0 ? 32767.0f / most : 0.0f;
        for (int64_t i = 0; i < n; i++) y[i] = (int16_t)(int32_t)nearbyintf(x[i] * inverse);
        made.values = y;
    }
    return made;
}

static void plain_rows(const Matrix *m, int64_t row, const float *x, float *sums) {
    const int64_t n = m->columns;
    const float *a = m->plain + row * n, *b = a + n, *c = b + n, *d = c + n;
    float p = 0, q = 0, r = 0, s = 0;
#pragma omp simd reduction(+ : p, q, r, s)
    for (int64_t i = 0; i < n; i++) {
        p += a[i] * x[i]; q += b[i] * x[i]; r += c[i] * x[i]; s += d[i] * x[i];
    }
    sums[0] = p; sums[1] = q; sums[2] = r; sums[3] = s;
}

static inline float low(uint32_t word) { union { uint32_t word; float value; } both = {word << 16}; return both.value; }
static inline float high(uint32_t word) { union { uint32_t word; float value; } both = {word & 0xffff0000u}; return both.value; }

static void half_rows(const Matrix *m, int64_t row, const float *x, float *sums) {
    const int64_t n = m->columns / 2;
    const float *even = x, *odd = x + n;
    for (int pair = 0; pair < ROWS; pair += 2) {
        const uint32_t *a = (const uint32_t *)m->half + (row + pair) * n, *b = a + n;
        float p = 0, q = 0, r = 0, s = 0;
#pragma omp simd reduction(+ : p, q, r, s)
        for (int64_t i = 0; i < n; i++) {
            p += low(a[i]) * even[i]; q += high(a[i]) * odd[i]; r += low(b[i]) * even[i]; s += high(b[i]) * odd[i];
        }
        sums[pair] = p + q; sums[pair + 1] = r + s;
    }
}

#define STRETCH 4096 /* products that a 32-bit sum in each of eight lanes can take */

static void whole_rows(const Matrix *m, int64_t row, const int16_t *x, float *sums) {
    const int64_t n = m->columns;
    for (int i = 0; i < ROWS; i++) sums[i] = 0;
    for (int64_t from = 0; from < n; from += STRETCH) {
        const int64_t to = from + STRETCH < n ? from + STRETCH : n;
        for (int pair = 0; pair < ROWS; pair += 2) {
            const int8_t *a = m->whole + (row + pair) * n, *b = a + n;
            int64_t i = from;
            float p = 0, q = 0;
#if defined(__AVX2__)
            __m256i first = _mm256_setzero_si256(), second = first, third = first, fourth = first;
            for (; i + 32 <= to; i += 32) {
                __builtin_prefetch(a + i + AHEAD);
                __builtin_prefetch(b + i + AHEAD);
                const __m256i left = _mm256_loadu_si256((const __m256i *)(x + i));
                const __m256i right = _mm256_loadu_si256((const __m256i *)(x + i + 16));
                const __m256i al = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(a + i)));
                const __m256i ar = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(a + i + 16)));
                const __m256i bl = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(b + i)));
                const __m256i br = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(b + i + 16)));
                first = _mm256_add_epi32(first, _mm256_madd_epi16(al, left));
                second = _mm256_add_epi32(second, _mm256_madd_epi16(ar, right));
                third = _mm256_add_epi32(third, _mm256_madd_epi16(bl, left));
                fourth = _mm256_add_epi32(fourth, _mm256_madd_epi16(br, right));
            }
            const __m256 total = _mm256_add_ps(_mm256_cvtepi32_ps(first), _mm256_cvtepi32_ps(second));
            const __m256 other = _mm256_add_ps(_mm256_cvtepi32_ps(third), _mm256_cvtepi32_ps(fourth));
            for (int lane = 0; lane < 8; lane++) { p += total[lane]; q += other[lane]; }
#else
            for (; i + 8 <= to; i += 8) { /* eight at a time: their 32-bit sum cannot overflow */
                int32_t some = 0, others = 0;
                for (int lane = 0; lane < 8; lane++) {
                    some += (int32_t)a[i + lane] * x[i + lane]; others += (int32_t)b[i + lane] * x[i + lane];
                }
                p += (float)some; q += (float)others;
            }
#endif
            for (; i < to; i++) { p += (float)((int32_t)a[i] * x[i]); q += (float)((int32_t)b[i] * x[i]); }
            sums[pair] += p; sums[pair + 1] += q;
        }
    }
}

/* Rows are padded to a multiple of ROWS beforehand. */
static inline void rows_of(const Matrix *m, int64_t row, Vector x, float *sums) {
    if (m->plain) plain_rows(m, row, x.values, sums);
    else if (m->half) half_rows(m, row, x.values, sums);
    else {
        whole_rows(m, row, x.values, sums);
        for (int i = 0; i < ROWS; i++) sums[i] *= m->factors[row + i] * x.factor;
    }
    if (m->bias) for (int i = 0; i < ROWS; i++) sums[i] += m->bias[row + i];
}

static void turn(float *x, const float *cosines, const float *sines, int64_t n) {
    for (int64_t i = 0; i < n / 2; i++) {
        const float first = x[i], second = x[i + n / 2];
        x[i] = first * cosines[i] + second * sines[i];
        x[i + n / 2] = second * cosines[i + n / 2] + first * sines[i + n / 2];
    }
}

static void prepare_head(const Model *model, const Layer *layer, float *x, int64_t head, int64_t place) {
    const int64_t n = model->head_width;
    if (layer->small_norm) {
        normalize(x, NULL, NULL, model->small_epsilon, n, x);
        for (int64_t i = 0; i < n; i++) x[i] *= layer->small_norm[head * n + i];
    }
    if (model->cosines) turn(x, model->cosines + place * n, model->sines + place * n, n);
}

/* One group of heads, which share keys and values: remember the new pair, then look at all of them. */
static void attend(const Model *model, const Layer *layer, float *projected, float *keys, float *values, int64_t group,
                   int64_t place, float *scores, float *mixed) {
    const int64_t n = model->head_width, share = model->heads / model->key_heads;
    float *key = projected + (model->heads + group) * n;
    const float *value = projected + (model->heads + model->key_heads + group) * n;
    prepare_head(model, layer, key, model->heads + group, place);
    for (int64_t i = 0; i < n; i++) { keys[place * n + i] = key[i]; values[place * n + i] = value[i]; }
    for (int64_t head = group * share; head < (group + 1) * share; head++) {
        float *query = projected + head * n, *y = mixed + head * n, most = -1e30f, total = 0;
        prepare_head(model, layer, query, head, place);
        for (int64_t s = 0; s <= place; s++) {
            float sum = 0;
#pragma omp simd reduction(+ : sum)
            for (int64_t i = 0; i < n; i++) sum += query[i] * keys[s * n + i];
            scores[s] = sum * model->scale;
            most = scores[s] > most ? scores[s] : most;
        }
#pragma omp simd reduction(+ : total)
        for (int64_t s = 0; s <= place; s++) { scores[s] = expf(scores[s] - most); total += scores[s]; }
        for (int64_t i = 0; i < n; i++) y[i] = 0;
        for (int64_t s = 0; s <= place; s++) {
            const float weight = scores[s] / total;
#pragma omp simd
            for (int64_t i = 0; i < n; i++) y[i] += weight * values[s * n + i];
        }
    }
}

static inline float silu(float x) { return x / (1.0f + expf(-x)); }

static inline float gelu(float x) { return 0.5f * x * (1.0f + tanhf(0.7978845608f * (x + 0.044715f * x * x * x))); }

/* The vectors of a batch, each made ready; `most` floats are set aside for each. */
static void ready_all(const Matrix *m, const float *x, int64_t batch, float *aside, int64_t most, Vector *made) {
    for (int64_t b = 0; b < batch; b++) made[b] = ready(m, x + b * m->columns, aside + b * most);
}

/* x (batch, width) becomes the last vectors, logits (batch, rows of the head); buffers[layer] is (batch, 2, key heads,
 * capacity, head width), of which the first places[row] positions are known. `room` holds the values on the way. */
void decode(const Model *model, int64_t batch, float *x, float *const *buffers, const int64_t *places, int64_t capacity,
            float *room, float *logits, int threads) {
    const int64_t width = model->width, n = model->head_width, groups = model->key_heads;
    const int64_t projected_width = (model->heads + 2 * groups) * n, mixed_width = model->heads * n;
    float *projected = room, *mixed = projected + batch * projected_width, *hidden = mixed + batch * mixed_width;
    int64_t most = width > model->hidden ? width : model->hidden;
    most = most > mixed_width ? most : mixed_width;
#pragma omp parallel num_threads(threads)
    {
        float *normed = malloc(sizeof(float) * (size_t)(batch * (width + most) + capacity));
        float *aside = normed + batch * width, *scores = aside + batch * most, sums[ROWS], more[ROWS];
        Vector made[batch];
        for (int64_t l = 0; l < model->layers; l++) {
            const Layer *layer = model->layer + l;
            for (int64_t b = 0; b < batch; b++)
                normalize(x + b * width, layer->before_scale, layer->before_shift, model->epsilon, width, normed + b * width);
            ready_all(&layer->project, normed, batch, aside, most, made);
#pragma omp for schedule(static)
            for (int64_t row = 0; row < projected_width; row += ROWS)
                for (int64_t b = 0; b < batch; b++) rows_of(&layer->project, row, made[b], projected + b * projected_width + row);
#pragma omp for schedule(static) collapse(2)
            for (int64_t b = 0; b < batch; b++)
                for (int64_t group = 0; group < groups; group++) {
                    float *keys = buffers[l] + ((b * 2) * groups + group) * capacity * n;
                    float *values = buffers[l] + ((b * 2 + 1) * groups + group) * capacity * n;
                    attend(model, layer, projected + b * projected_width, keys, values, group, places[b], scores,
                           mixed + b * mixed_width);
                }
            ready_all(&layer->output, mixed, batch, aside, most, made);
#pragma omp for schedule(static)
            for (int64_t row = 0; row < width; row += ROWS)
                for (int64_t b = 0; b < batch; b++) {
                    rows_of(&layer->output, row, made[b], sums);
                    for (int i = 0; i < ROWS; i++) x[b * width + row + i] += sums[i];
                }
            for (int64_t b = 0; b < batch; b++)
                normalize(x + b * width, layer->after_scale, layer->after_shift, model->epsilon, width, normed + b * width);
            ready_all(&layer->inner, normed, batch, aside, most, made);
#pragma omp for schedule(static)
            for (int64_t row = 0; row < model->hidden; row += ROWS)
                for (int64_t b = 0; b < batch; b++) {
                    float *out = hidden + b * model->hidden + row;
                    rows_of(&layer->inner, row, made[b], sums);
                    if (model->gated) rows_of(&layer->inner, model->hidden + row, made[b], more);
                    for (int i = 0; i < ROWS; i++) out[i] = model->gated ? silu(sums[i]) * more[i] : gelu(sums[i]);
                }
            ready_all(&layer->outer, hidden, batch, aside, most, made);
#pragma omp for schedule(static)
            for (int64_t row = 0; row < width; row += ROWS)
                for (int64_t b = 0; b < batch; b++) {
                    rows_of(&layer->outer, row, made[b], sums);
                    for (int i = 0; i < ROWS; i++) x[b * width + row + i] += sums[i];
                }
        }
        for (int64_t b = 0; b < batch; b++)
            normalize(x + b * width, model->final_scale, model->final_shift, model->epsilon, width, normed + b * width);
        ready_all(&model->head, normed, batch, aside, most, made);
#pragma omp for schedule(static)
        for (int64_t row = 0; row < model->head.rows; row += ROWS)
            for (int64_t b = 0; b < batch; b++) rows_of(&model->head, row, made[b], logits + b * model->head.rows + row);
        free(normed);
    }
}

#define CHUNK (1 << 18) /* bytes; the result must not depend on how many threads share them */

static uint64_t digest(const unsigned char *bytes, int64_t size) {
    const uint64_t prime = 0x9e3779b97f4a7c15ull;
    uint64_t lanes[8] = {1, 2, 3, 4, 5, 6, 7, 8}, sum = (uint64_t)size;
    int64_t i = 0;
    for (; i + 64 <= size; i += 64)
        for (int lane = 0; lane < 8; lane++) {
            uint64_t word;
            memcpy(&word, bytes + i + 8 * lane, 8);
            lanes[lane] = (lanes[lane] ^ word) * prime;
            lanes[lane] ^= lanes[lane] >> 29; /* a product alone never carries high bits down */
        }
    for (; i < size; i++) sum = (sum ^ bytes[i]) * prime;
    for (int lane = 0; lane < 8; lane++) sum = ((sum ^ lanes[lane]) * prime) ^ (sum >> 31);
    return sum;
}

/* A number that any change of the bytes changes, as good as certainly: not against an attacker, but against old copies. */
uint64_t fingerprint(const void *bytes, int64_t size, int threads) {
    const int64_t chunks = (size + CHUNK - 1) / CHUNK;
    uint64_t sum = 0;
#pragma omp parallel for num_threads(threads) schedule(static) reduction(^ : sum)
    for (int64_t i = 0; i < chunks; i++) {
        const int64_t first = i * CHUNK, left = size - first;
        uint64_t own = digest((const unsigned char *)bytes + first, left < CHUNK ? left : CHUNK);
        own = (own + (uint64_t)i) * 0xff51afd7ed558ccdull;
        sum ^= own ^ (own >> 33);
    }
    return sum;
}
