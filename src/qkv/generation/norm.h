/* LayerNorm, y = (x - mean) / sqrt(variance + epsilon) · scale + shift; without a scale RMSNorm, y = x / sqrt(mean(x²) + epsilon).
 * y may be x. */
#include <math.h>
#include <stdint.h>

static inline void normalize(const float *x, const float *scale, const float *shift, float epsilon, int64_t n, float *y) {
    float mean = 0, square = 0;
    if (scale) {
#pragma omp simd reduction(+ : mean)
        for (int64_t i = 0; i < n; i++) mean += x[i];
        mean /= (float)n;
    }
#pragma omp simd reduction(+ : square)
    for (int64_t i = 0; i < n; i++) square += (x[i] - mean) * (x[i] - mean);
    const float factor = 1.0f / sqrtf(square / (float)n + epsilon);
    if (scale) for (int64_t i = 0; i < n; i++) y[i] = (x[i] - mean) * factor * scale[i] + (shift ? shift[i] : 0.0f);
    else for (int64_t i = 0; i < n; i++) y[i] = x[i] * factor;
}
