/* What a beam does between its products: attention of its rows, and the best candidates of each row.
 *
 * A row is computed as if it were alone: what it gives does not depend on its neighbours or on the threads.
 */
#include <stdlib.h>
#include "norm.h"

#define LOWEST -3.4e38f /* with -ffast-math there is no infinity */

/* e^x for x <= 0:  e^x = 2^k e^r,  k = round(x / ln 2),  |r| <= ln 2 / 2,  e^r by its series; to 2e-7 of e^x near zero. */
static inline float exponential(float x) {
    x = x < -87.0f ? -87.0f : x;
    const float k = nearbyintf(x * 1.442695041f), r = x - k * 0.693147181f;
    const float series = 1.0f + r * (1.0f + r * (1.0f / 2 + r * (1.0f / 6 + r * (1.0f / 24 + r * (1.0f / 120 + r / 720)))));
    const union { int32_t bits; float value; } power = {((int32_t)k + 127) << 23}; /* 2^k */
    return series * power.value;
}

#define LANES 16 /* weights that are computed side by side */

/* One row of queries:  y = Σ_s w_s v_s,  w = softmax_s(scale · q · k_s),  for each head by itself.
 * pairs[s] points at k_s, behind which lies v_s, (heads, n) each; `weights` has room for (heads, length + LANES). */
static inline __attribute__((always_inline)) void attend(const float *query, const float *const *pairs, int64_t length,
                                                         int64_t heads, int64_t n, float scale, float *weights, float *y) {
    const int64_t whole = (length + LANES - 1) / LANES * LANES; /* filled up with weights of nothing */
    for (int64_t s = 0; s < length; s++)
        for (int64_t head = 0; head < heads; head++) {
            const float *q = query + head * n, *key = pairs[s] + head * n;
            float sum = 0;
#pragma omp simd reduction(+ : sum)
            for (int64_t i = 0; i < n; i++) sum += q[i] * key[i];
            weights[head * whole + s] = sum * scale;
        }
    for (int64_t head = 0; head < heads; head++) {
        float *w = weights + head * whole, *out = y + head * n, most = LOWEST, total = 0;
        for (int64_t s = length; s < whole; s++) w[s] = LOWEST;
        for (int64_t s = 0; s < whole; s += LANES)
            for (int64_t i = s; i < s + LANES; i++) most = w[i] > most ? w[i] : most;
        for (int64_t s = 0; s < whole; s += LANES)
            for (int64_t i = s; i < s + LANES; i++) total += w[i] = exponential(w[i] - most);
        for (int64_t i = 0; i < n; i++) out[i] = 0;
        for (int64_t s = 0; s < length; s++) {
            const float weight = w[s] / total, *value = pairs[s] + (heads + head) * n;
#pragma omp simd
            for (int64_t i = 0; i < n; i++) out[i] += weight * value[i];
        }
    }
}

/* Of `groups` groups, each with `share` rows that look at the same positions: pairs (groups, capacity), of which the first
 * lengths[group] are there; queries and mixed (groups · share, heads · n). Usual sizes of a head are known beforehand. */
void attend_rows(int64_t groups, int64_t share, int64_t heads, int64_t n, float scale, const float *queries,
                 const float *const *pairs, int64_t capacity, const int64_t *lengths, float *mixed, int threads) {
#pragma omp parallel num_threads(threads)
    {
        float *weights = malloc(sizeof(float) * (size_t)(heads * (capacity + LANES)));
#pragma omp for schedule(static)
        for (int64_t row = 0; row < groups * share; row++) {
            const int64_t group = row / share, length = lengths[group];
            const float *query = queries + row * heads * n, *const *there = pairs + group * capacity;
            float *y = mixed + row * heads * n;
            if (n == 32) attend(query, there, length, heads, 32, scale, weights, y);
            else if (n == 64) attend(query, there, length, heads, 64, scale, weights, y);
            else attend(query, there, length, heads, n, scale, weights, y);
        }
        free(weights);
    }
}

/* A residual and the norm after it:  y = norm(x + added),  each (rows, n). */
void add_and_normalize(const float *x, const float *added, int64_t rows, int64_t n, const float *scale, const float *shift,
                       float epsilon, float *y, int threads) {
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t row = 0; row < rows; row++) {
        float *out = y + row * n;
        for (int64_t i = 0; i < n; i++) out[i] = x[row * n + i] + added[row * n + i];
        normalize(out, scale, shift, epsilon, n, out);
    }
}

#define BLOCK 64 /* scores that are looked at together: most blocks hold no candidate */

static int among(int64_t token, const int64_t *tokens, int64_t count) {
    for (int64_t i = 0; i < count; i++) if (tokens[i] == token) return 1;
    return 0;
}

/* Of each row of scores (rows, vocabulary) the `count` largest except those that are never written, in order, of equals the
 * first one first; and their log p = x - max - log Σ e^(x - max), the sum over all. No table of log p is written down. */
void candidates(const float *scores, int64_t rows, int64_t vocabulary, const int64_t *never, int64_t nevers, int64_t count,
                float *logprobs, int64_t *tokens, int threads) {
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t row = 0; row < rows; row++) {
        const float *x = scores + row * vocabulary;
        float *best = logprobs + row * count, most = LOWEST, total = 0;
        int64_t *token = tokens + row * count;
        for (int64_t i = 0; i < count; i++) { best[i] = LOWEST; token[i] = 0; }
        for (int64_t first = 0; first < vocabulary; first += BLOCK) {
            const int64_t last = first + BLOCK < vocabulary ? first + BLOCK : vocabulary;
            float top = LOWEST;
            for (int64_t i = first; i < last; i++) top = x[i] > top ? x[i] : top;
            most = top > most ? top : most;
            if (top <= best[count - 1]) continue;
            for (int64_t i = first; i < last; i++) {
                if (x[i] <= best[count - 1] || among(i, never, nevers)) continue;
                int64_t place = count - 1; /* the last one drops out, those below move down */
                for (; place > 0 && best[place - 1] < x[i]; place--) {
                    best[place] = best[place - 1];
                    token[place] = token[place - 1];
                }
                best[place] = x[i];
                token[place] = i;
            }
        }
#pragma omp simd reduction(+ : total)
        for (int64_t i = 0; i < vocabulary; i++) total += exponential(x[i] - most);
        for (int64_t i = 0; i < count; i++) best[i] -= most + logf(total);
    }
}
