/* Modified Bessel functions: a polynomial in x^2 up to 10, beyond exp(x) P(1 / x) / sqrt(x). */

INLINE double gs_bessel_i0_near(double a)
{
    double z = a * a;
    double p = gs_fma_f64(0x1.2bae167ae2dedp-130, z, 0x1.f573751fc75cbp-122);
    p = gs_fma_f64(p, z, 0x1.836be2ac6ce6ap-111);
    p = gs_fma_f64(p, z, 0x1.3a4c303a32171p-101);
    p = gs_fma_f64(p, z, 0x1.e7f5b7ad29d0ep-92);
    p = gs_fma_f64(p, z, 0x1.41879787a04a4p-82);
    p = gs_fma_f64(p, z, 0x1.69cc71ec399bfp-73);
    p = gs_fma_f64(p, z, 0x1.5601609528c1ap-64);
    p = gs_fma_f64(p, z, 0x1.0b31350aa845fp-55);
    p = gs_fma_f64(p, z, 0x1.522a43bb2dae9p-47);
    p = gs_fma_f64(p, z, 0x1.522a43fa40657p-39);
    p = gs_fma_f64(p, z, 0x1.02e85c086a74bp-31);
    p = gs_fma_f64(p, z, 0x1.23456789ae9f2p-24);
    p = gs_fma_f64(p, z, 0x1.c71c71c71c3c4p-18);
    p = gs_fma_f64(p, z, 0x1.c71c71c71c73ep-12);
    p = gs_fma_f64(p, z, 0x1.fffffffffffffp-7);
    p = gs_fma_f64(p, z, 0x1p-2);
    p = gs_fma_f64(p, z, 0x1p0);
    return p;
}

INLINE double gs_bessel_i0_far(double a)
{
    double u = 1.0 / a;
    double p = gs_fma_f64(-0x1.4be81699841fcp40, u, 0x1.074fc5cbfb8aap40);
    p = gs_fma_f64(p, u, -0x1.7277d47f79337p38);
    p = gs_fma_f64(p, u, 0x1.303a40ece737ap36);
    p = gs_fma_f64(p, u, -0x1.429cd19e468bcp33);
    p = gs_fma_f64(p, u, 0x1.caccd397e87dbp29);
    p = gs_fma_f64(p, u, -0x1.b06388ba09968p25);
    p = gs_fma_f64(p, u, 0x1.e176b184f7209p20);
    p = gs_fma_f64(p, u, -0x1.aa7ac037fc6a4p13);
    p = gs_fma_f64(p, u, -0x1.41bdba3d16c85p11);
    p = gs_fma_f64(p, u, 0x1.454284a348429p7);
    p = gs_fma_f64(p, u, -0x1.227dc520f1f16p2);
    p = gs_fma_f64(p, u, 0x1.5a43e8733dd33p-2);
    p = gs_fma_f64(p, u, 0x1.6cd413e9fdfacp-4);
    p = gs_fma_f64(p, u, 0x1.6ea4b0f8b2a38p-5);
    p = gs_fma_f64(p, u, 0x1.debabb1a76eaep-6);
    p = gs_fma_f64(p, u, 0x1.cb94ddedac1bep-6);
    p = gs_fma_f64(p, u, 0x1.9884533d344f6p-5);
    p = gs_fma_f64(p, u, 0x1.9884533d43655p-2);
    return p * __builtin_sqrt(u);
}

INLINE double gs_bessel_i1_near(double a)
{
    double z = a * a;
    double p = gs_fma_f64(0x1.06195034e771fp-135, z, 0x1.e50cca1952094p-127);
    p = gs_fma_f64(p, z, 0x1.8126cae134ccep-116);
    p = gs_fma_f64(p, z, 0x1.4fb911d0a8783p-106);
    p = gs_fma_f64(p, z, 0x1.16c4bbae78719p-96);
    p = gs_fma_f64(p, z, 0x1.8bbde16823172p-87);
    p = gs_fma_f64(p, z, 0x1.e265745eb57bbp-78);
    p = gs_fma_f64(p, z, 0x1.f1766aa6488acp-69);
    p = gs_fma_f64(p, z, 0x1.ab81ed7ab897p-60);
    p = gs_fma_f64(p, z, 0x1.2c9758b4c8dd6p-51);
    p = gs_fma_f64(p, z, 0x1.522a43f910b97p-43);
    p = gs_fma_f64(p, z, 0x1.27e4fb7766afbp-35);
    p = gs_fma_f64(p, z, 0x1.845c8a0ce7745p-28);
    p = gs_fma_f64(p, z, 0x1.6c16c16c16a7ep-21);
    p = gs_fma_f64(p, z, 0x1.c71c71c71c72fp-15);
    p = gs_fma_f64(p, z, 0x1.5555555555555p-9);
    p = gs_fma_f64(p, z, 0x1p-4);
    p = gs_fma_f64(p, z, 0x1p-1);
    return a * p;
}

INLINE double gs_bessel_i1_far(double a)
{
    double u = 1.0 / a;
    double p = gs_fma_f64(0x1.63c87853bce8p40, u, -0x1.1bfa4dc5e3bc3p40);
    p = gs_fma_f64(p, u, 0x1.92b368997c3cbp38);
    p = gs_fma_f64(p, u, -0x1.4e3b74d7b0b3bp36);
    p = gs_fma_f64(p, u, 0x1.67e2aa95fa5b3p33);
    p = gs_fma_f64(p, u, -0x1.061ff719dc5cfp30);
    p = gs_fma_f64(p, u, 0x1.022273072f9f9p26);
    p = gs_fma_f64(p, u, -0x1.408dbcdc3569cp21);
    p = gs_fma_f64(p, u, 0x1.4d98f963e13e7p15);
    p = gs_fma_f64(p, u, 0x1.92b0c8cb10ea7p10);
    p = gs_fma_f64(p, u, -0x1.170ccca8b6ea5p7);
    p = gs_fma_f64(p, u, 0x1.01855f6cffe9cp2);
    p = gs_fma_f64(p, u, -0x1.7fc7c7d185a9bp-2);
    p = gs_fma_f64(p, u, -0x1.bf7251c092456p-4);
    p = gs_fma_f64(p, u, -0x1.d75d57a82c29fp-5);
    p = gs_fma_f64(p, u, -0x1.4f1c60f9d61bap-5);
    p = gs_fma_f64(p, u, -0x1.7efc0e2e34663p-5);
    p = gs_fma_f64(p, u, -0x1.32633e6deeb51p-3);
    p = gs_fma_f64(p, u, 0x1.9884533d4364cp-2);
    return p * __builtin_sqrt(u);
}

/* exp(a) times a factor below 1/2, finite where exp(a) alone may not be. */
INLINE double gs_exp_times(double a, double factor)
{
    double bounded = a > 800.0 ? 800.0 : a;
    double root = gs_exp_f64(bounded - 8.0);
    return root * (factor * 0x1.749ea7d470c6ep11);
}

INLINE double gs_bessel_i0_f64(double x)
{
    double a = __builtin_fabs(x);
    double bounded = a > 10.0 ? a : 10.0;
    double far = gs_exp_times(a, gs_bessel_i0_far(bounded));
    far = a < 800.0 ? far : __builtin_inf();
    return a > 10.0 ? far : gs_bessel_i0_near(a);
}

INLINE double gs_bessel_i1_f64(double x)
{
    double a = __builtin_fabs(x);
    double bounded = a > 10.0 ? a : 10.0;
    double far = gs_exp_times(a, gs_bessel_i1_far(bounded));
    far = a < 800.0 ? far : __builtin_inf();
    return __builtin_copysign(a > 10.0 ? far : gs_bessel_i1_near(a), x);
}

INLINE double gs_bessel_i0e_f64(double x)
{
    double a = __builtin_fabs(x);
    double bounded = a > 10.0 ? a : 10.0, limited = a > 10.0 ? 10.0 : a;
    double near = gs_bessel_i0_near(limited) * gs_exp_f64(-limited);
    return a > 10.0 ? gs_bessel_i0_far(bounded) : near;
}

INLINE double gs_bessel_i1e_f64(double x)
{
    double a = __builtin_fabs(x);
    double bounded = a > 10.0 ? a : 10.0, limited = a > 10.0 ? 10.0 : a;
    double near = gs_bessel_i1_near(limited) * gs_exp_f64(-limited);
    return __builtin_copysign(a > 10.0 ? gs_bessel_i1_far(bounded) : near, x);
}

/* The Hurwitz zeta function by the summation of Euler and Maclaurin. The number of terms is the argument's. */
INLINE double gs_zeta_f64(double x, double q)
{
    if (x == 1.0)
        return __builtin_inf();
    if (!(x > 1.0) || q != q)
        return __builtin_nan("");
    if (q <= 0.0 && q == __builtin_floor(q))
        return __builtin_inf();
    if (q <= 0.0 && x != __builtin_floor(x))
        return __builtin_nan("");
    double sum = 0.0, term = 0.0;
    int count = 0;
    for (; count < 10 || q < 10.0; ++count, q += 1.0) {
        term = gs_pow_f64(q, -x);
        sum += term;
        if (__builtin_fabs(term) < 0x1p-60 * __builtin_fabs(sum) && q > 0.0)
            return sum;
    }
    term = gs_pow_f64(q, -x);
    sum += term * (q / (x - 1.0) + 0.5);
    double factor = x * term / q;
    const double numbers[] = {0x1.5555555555555p-4, -0x1.6c16c16c16c17p-10, 0x1.1566abc011567p-15, -0x1.bbd779334ef0bp-21, 0x1.66a8f2bf70ebep-26, -0x1.22805d644267fp-31, 0x1.d6db2c4e09162p-37, -0x1.7da4e1f79955cp-42, 0x1.355871d652e9ep-47, -0x1.f57d968caacf1p-53};
    for (int k = 0; k < 10; ++k) {
        sum += factor * numbers[k];
        factor *= (x + 2 * k + 1) * (x + 2 * k + 2) / (q * q);
    }
    return sum;
}

INLINE float gs_zeta_f32(float x, float q)
{
    return (float)gs_zeta_f64(x, q);
}

INLINE float gs_bessel_i0_f32(float x)
{
    return (float)gs_bessel_i0_f64(x);
}

INLINE float gs_bessel_i1_f32(float x)
{
    return (float)gs_bessel_i1_f64(x);
}

INLINE float gs_bessel_i0e_f32(float x)
{
    return (float)gs_bessel_i0e_f64(x);
}

INLINE float gs_bessel_i1e_f32(float x)
{
    return (float)gs_bessel_i1e_f64(x);
}
