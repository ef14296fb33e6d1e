/* sin, cos and tan: |x| = n pi / 2 + r with |r| <= pi / 4, and minimax polynomials of r. Up to 2^20, n pi / 2 is taken
   away in parts (Cody and Waite 1980). Above, the bits of 2 / pi that matter for the exponent of x come from a table
   (Payne and Hanek 1983), a row for every 16 exponents, without those that would only add multiples of 4. */

static const double gs_turns_f64[252] = {
    0x1.45f2p16, 0x1.45f306dcp32, 0x1.45f306dc9c88p48, 0x1.9836e4e441529p53,
    0x1.c9c882a53f84ep52, 0x1.054a7f09d5f44p51, 0x1.3f84eafa3ea68p52, 0x1.d5f47d4d377p51,
    0x1.1f534ddc0db62p53, 0x1.4ddc0db629599p53, 0x1.b6c52b327886p48, 0x1.4acc9e21c8208p50,
    0x1.93c439041fe51p53, 0x1.c820ff28b1d58p50, 0x1.fe5163abdebbp49, 0x1.163abdebbc561p53,
    0x1.7bd778ac36e48p52, 0x1.bc561b7246e3ap53, 0x1.b7246e3a424dp49, 0x1.1b8e909374b8p51,
    0x1.a424dd2e00649p53, 0x1.ba5c00c925dd4p52, 0x1.924bba82744p43, 0x1.25dd413a32438p52,
    0x1.413a32439fc3ap52, 0x1.1921cfe1deb1cp53, 0x1.cfe1deb1cb129p53, 0x1.deb1cb129a73ep53,
    0x1.cb129a73ee882p53, 0x1.34e7dd1046beap52, 0x1.ee88235f52ebbp53, 0x1.1afa975da242p50,
    0x1.52ebb4484e99cp53, 0x1.b4484e99c7026p53, 0x1.3a671c09ad17cp51, 0x1.c7026b45f7e41p53,
    0x1.ad17df904e644p51, 0x1.f7e413991d639p53, 0x1.3991d6398353p49, 0x1.1d639835339f4p53,
    0x1.9835339f49c84p53, 0x1.339f49c845f8bp53, 0x1.49c845f8bbdf9p53, 0x1.17e2ef7e4a0ecp51,
    0x1.77bf250763ffp52, 0x1.9283b1ff897ffp53, 0x1.b1ff897ffde05p53, 0x1.897ffde05980fp53,
    0x1.fde05980fef2fp53, 0x1.6603fbcbc462cp51, 0x1.fde5e2316b414p52, 0x1.e2316b414da3ep52,
    0x1.6b414da3eda6cp52, 0x1.4da3eda6cfd9ep52, 0x1.f6d367ecf27cbp53, 0x1.67ecf27cb09b7p53,
    0x1.e4f96136e9e8cp52, 0x1.6136e9e8c7eccp52, 0x1.74f463f669e5fp53, 0x1.8fd9a797fa8b4p51,
    0x1.a797fa8b5d49cp51, 0x1.fea2d7527bac7p53, 0x1.aea4f758fd7cap52, 0x1.06dc9c882a53fp0,
    0x1.391054a7f09d4p-1, 0x1.529fc2757d1fp-3, 0x1.f84eafa3ea69bp0, 0x1.5f47d4d377036p-1,
    0x1.ea69bb81b6c52p0, 0x1.bb81b6c52b327p0, 0x1.b6c52b3278872p0, 0x1.2b3278872083fp0,
    0x1.e21c820ff28bp-2, 0x1.2083fca2c757bp0, 0x1.fca2c757bd778p0, 0x1.8eaf7aef1586cp-1,
    0x1.bd778ac36e48dp0, 0x1.8ac36e48dc748p0, 0x1.6e48dc74849bap0, 0x1.b8e909374b8p-1,
    0x1.09374b801924ap-1, 0x1.a5c00c925dd41p0, 0x1.924bba827464p-5, 0x1.77504e8c90e7cp-2,
    0x1.3a32439fc3bdp-4, 0x1.2439fc3bd6396p0, 0x1.fc3bd63962534p0, 0x1.d63962534e7ddp0,
    0x1.62534e7dd1046p0, 0x1.4e7dd1046bea5p0, 0x1.d1046bea5d768p0, 0x1.afa975da24274p-2,
    0x1.75da24274ce38p-2, 0x1.1213a671c09acp-1, 0x1.d338e04d68befp0, 0x1.c09ad17df904ep-1,
    0x1.68befc827323ap0, 0x1.f904e64758e6p-1, 0x1.cc8eb1cc1a99cp-2, 0x1.ac7306a673e93p0,
    0x1.06a673e93908bp0, 0x1.cfa4e422fc5dcp-2, 0x1.3908bf177bf25p0, 0x1.7e2ef7e4a0ec6p-1,
    0x1.7bf250763ff12p0, 0x1.41d8ffc4bffecp-2, 0x1.ff897ffde0598p-3, 0x1.2fffbc0b301fdp0,
    0x1.bc0b301fde5e2p0, 0x1.301fde5e2316bp0, 0x1.de5e2316b414dp0, 0x1.18b5a0a6d1f68p-3,
    0x1.6829b47db4d9ep-1, 0x1.b47db4d9fb3c8p-1, 0x1.b4d9fb3c9f2c2p-1, 0x1.fb3c9f2c26dd2p-1,
    0x1.3e584dba7a31cp-2, 0x1.36e9e8c7ecd3p-4, 0x1.3d18fd9a797fap-1, 0x1.fb34f2ff516b8p-2,
    0x1.3cbfd45aea4f7p0, 0x1.d45aea4f758fdp0, 0x1.d49eeb1faf97cp-1, 0x1.758fd7cbe2f67p0,
    0x1.d7cbe2f67a0e7p0, 0x1.e2f67a0e73ef1p0, 0x1.09d5f47d4d377p-53, 0x1.f47d4d377036dp-53,
    0x1.4d377036d8a56p-53, 0x1.7036d8a5664f1p-53, 0x1.b14acc9e21c82p-54, 0x1.664f10e4107f9p-53,
    0x1.10e4107f9458ep-53, 0x1.07f9458eaf7ap-57, 0x1.9458eaf7aef15p-53, 0x1.d5ef5de2b0db8p-54,
    0x1.aef1586dc91b8p-53, 0x1.586dc91b8e909p-53, 0x1.c91b8e909374bp-53, 0x1.8e909374b8019p-53,
    0x1.26e9700324976p-54, 0x1.700324977504ep-54, 0x1.924bba8274648p-53, 0x1.ba827464873f8p-53,
    0x1.d1921cfe1debp-55, 0x1.0e7f0ef58e588p-54, 0x1.877ac72c4a69cp-53, 0x1.8e5894d39f744p-54,
    0x1.29a73ee88235cp-55, 0x1.cfba208d7d4bap-53, 0x1.046bea5d7689p-56, 0x1.7d4baed1213a6p-53,
    0x1.aed1213a671cp-53, 0x1.213a671c09ad1p-53, 0x1.9c7026b45f7e4p-55, 0x1.35a2fbf209ccp-58,
    0x1.17df904e64758p-53, 0x1.904e64758e60dp-53, 0x1.91d639835339cp-55, 0x1.8e60d4ce7d272p-53,
    0x1.a99cfa4e422fcp-54, 0x1.f49c845f8bbdcp-55, 0x1.2117e2ef7e4ap-53, 0x1.e2ef7e4a0ec7fp-53,
    0x1.7e4a0ec7fe25fp-53, 0x1.d8ffc4bffefp-58, 0x1.fe25fff78166p-53, 0x1.fff7816603fbcp-53,
    0x1.816603fbcbc46p-53, 0x1.fde5e2316b4p-60, 0x1.cbc462d6829b4p-53, 0x1.8b5a0a6d1f6dp-55,
    0x1.05368fb69b3f6p-54, 0x1.47db4d9fb3c9fp-53, 0x1.4d9fb3c9f2c26p-53, 0x1.b3c9f2c26dd3dp-53,
    0x1.f2c26dd3d18fdp-53, 0x1.b74f463f669e4p-55, 0x1.d18fd9a797fa8p-53, 0x1.d9a797fa8b5d4p-53,
    0x1.97fa8b5d49eebp-53, 0x1.16ba93dd63f5ep-54, 0x1.49eeb1faf97c5p-53, 0x1.63f5f2f8bd9e8p-54,
    0x1.f2f8bd9e839cep-54, 0x1.7b3d0739f78a4p-55, 0x1.41ce7de294a4bp-53, 0x1.f78a5292ea6bcp-55,
    0x1.29497535fdafcp-54, 0x1.b6c52b327884p-112, 0x1.14acc9e21c82p-106, 0x1.93c439041fe5p-107,
    0x1.c820ff28b1d5p-110, 0x1.fe5163abdebap-111, 0x1.163abdebbc56p-107, 0x1.5ef5de2b0db92p-106,
    0x1.de2b0db92371dp-106, 0x1.0db92371d2126p-106, 0x1.2371d2126e97p-106, 0x1.d2126e9700324p-106,
    0x1.ba5c00c925dd4p-108, 0x1.00324977504e8p-106, 0x1.25dd413a32438p-108, 0x1.504e8c90e7f0ep-106,
    0x1.1921cfe1deb1cp-107, 0x1.cfe1deb1cb128p-107, 0x1.deb1cb129a73ep-107, 0x1.cb129a73ee882p-107,
    0x1.4d39f74411afap-106, 0x1.f74411afa975dp-106, 0x1.1afa975da242p-110, 0x1.a975da24274cep-106,
    0x1.da24274ce3813p-106, 0x1.3a671c09ad178p-109, 0x1.c7026b45f7e4p-107, 0x1.35a2fbf209cc8p-106,
    0x1.f7e413991d638p-107, 0x1.3991d6398352p-111, 0x1.1d639835339f4p-107, 0x1.cc1a99cfa4e42p-106,
    0x1.339f49c845f8ap-107, 0x1.a4e422fc5defcp-106, 0x1.17e2ef7e4a0e8p-109, 0x1.77bf250763ffp-108,
    0x1.c941d8ffc4bffp-106, 0x1.d8ffc4bffef02p-106, 0x1.c4bffef02cc07p-106, 0x1.fef02cc07f797p-106,
    0x1.6603fbcbc4628p-109, 0x1.fde5e2316b414p-108, 0x1.788c5ad05368fp-106, 0x1.6b414da3eda6cp-108,
    0x1.4da3eda6cfd9cp-108, 0x1.f6d367ecf27cap-107, 0x1.b3f6793e584dbp-106, 0x1.e4f96136e9e8cp-108,
    0x1.6136e9e8c7eccp-108, 0x1.ba7a31fb34f2fp-106, 0x1.8fd9a797fa8bp-109, 0x1.34f2ff516ba93p-106,
    0x1.fea2d7527bac6p-107, 0x1.6ba93dd63f5f2p-106, 0x1.3dd63f5f2f8bdp-106, 0x1.faf97c5ecf418p-109,
    0x1.2f8bd9e839cfbp-106, 0x1.d9e839cfbc529p-106, 0x1.ce7de294a4ba8p-109, 0x1.bc529497535fdp-106,
    0x1.292ea6bfb5fbp-107, 0x1.535fdafd88fc6p-106, 0x1.dafd88fc6ae84p-106, 0x1.88fc6ae842b01p-106,
};

static const double gs_turns_f32[21] = {
    0x1.45f3p16, 0x1.f306dc9p24, 0x1.b939104p23, 0x1.1054a7ep23,
    0x1.4fe13a8p22, 0x1.3abe8f8p22, 0x1.a3ea69bp24, 0x1.b72722p-6,
    0x1.91054a7p-5, 0x1.4a7f09dp-5, 0x1.09d5f47p-5, 0x1.f47d4d3p-5,
    0x1.4d37703p-5, 0x1.7036d8ap-5, 0x1.529fc2757d1f5p-35, 0x1.e13abe8fa9a6fp-34,
    0x1.7d1f534ddc0dbp-35, 0x1.a9a6ee06db14bp-34, 0x1.dc0db6295993cp-35, 0x1.b6295993c439p-35,
    0x1.5993c439041fep-35,
};

/* What is left of |x|, in two parts for the sake of arguments near multiples of pi / 2, and n. */
typedef struct {
    double high, low, n;
} gs_angle_f64;

typedef struct {
    float r, n;
} gs_angle_f32;

INLINE gs_angle_f64 gs_near_angle_f64(double a)
{
    double n = gs_nearest_f64(a * 0x1.45f306dc9c883p-1);
    double first = a - n * 0x1.921fb544p0;
    double product = n * 0x1.0b4611a626331p-34;
    double high = first - product;
    double kept = first - high;
    double low = (kept - product) + ((first - (high + kept)));
    low -= gs_rest_f64(n, 0x1.0b4611a626331p-34, product) + n * 0x1.1701b839a252p-88;
    double sum = high + low;
    return (gs_angle_f64){sum, low - (sum - high), n};
}

/* The exponent's row, and a number between 1 and 2^16 that the row is to be multiplied with. */
INLINE gs_angle_f64 gs_far_angle_f64(double a)
{
    uint64_t bits = gs_to_bits_f64(a);
    int64_t row = (int64_t)(bits >> 56) - 65;
    row = row < 0 ? 0 : row > 62 ? 62 : row;
    double x = gs_of_bits_f64(bits - ((uint64_t)(17 + 16 * row) << 52));
    double c1 = gs_turns_f64[row], c2 = gs_turns_f64[63 + row], c3 = gs_turns_f64[126 + row], c4 = gs_turns_f64[189 + row];
    double p1 = x * c1, p2 = x * c2, p3 = x * c3;
    double rest = gs_rest_f64(x, c1, p1);
    double whole = (p1 - 4.0 * __builtin_rint(0.25 * p1)) + (rest - 4.0 * __builtin_rint(0.25 * rest));
    double n1 = __builtin_rint(whole), n2 = __builtin_rint(p2);
    whole -= n1;
    double part = p2 - n2;
    double first = whole + part;
    double kept = first - whole;
    double first_low = (whole - (first - kept)) + (part - kept);
    double n3 = __builtin_rint(first);
    first -= n3;
    double p2_low = gs_rest_f64(x, c2, p2);
    double second = p2_low + p3;
    kept = second - p2_low;
    double second_low = (p2_low - (second - kept)) + (p3 - kept);
    double third = first_low + second;
    kept = third - first_low;
    double third_low = (first_low - (third - kept)) + (second - kept) + second_low + gs_rest_f64(x, c3, p3) + x * c4;
    double turn = first + third;
    double turn_low = (third - (turn - first)) + third_low;
    double high = turn * 0x1.921fb54442d18p0;
    double low = gs_rest_f64(turn, 0x1.921fb54442d18p0, high) + (turn * 0x1.1a62633145c07p-54 + turn_low * 0x1.921fb54442d18p0);
    double sum = high + low;
    return (gs_angle_f64){sum, low - (sum - high), n1 + n2 + n3};
}

INLINE gs_angle_f64 gs_angle_of_f64(double a)
{
    gs_angle_f64 near = gs_near_angle_f64(a), far = gs_far_angle_f64(a);
    int is_near = a < 0x1p20;
    double high = is_near ? near.high : far.high;
    high = a < __builtin_inf() ? high : __builtin_nan("");
    return (gs_angle_f64){high, is_near ? near.low : far.low, is_near ? near.n : far.n};
}

/* In float32 throughout, for numbers up to 2^15, where there is fma. */
INLINE gs_angle_f32 gs_near_angle_f32(float a)
{
#if GS_HAS_FMA
    float n = gs_nearest_f32(a * 0x1.45f306p-1f);
    float r = gs_fma_f32(n, -0x1.921fb6p0f, a);
    r = gs_fma_f32(n, 0x1.777a5cp-25f, r);
    return (gs_angle_f32){gs_fma_f32(n, 0x1.ee59dap-50f, r), n};
#else
    double n = gs_nearest_f64(a * 0x1.45f306dc9c883p-1);
    return (gs_angle_f32){(float)((a - n * 0x1.921fb544p0) - n * 0x1.0b4611a626331p-34), (float)n};
#endif
}

/* In float64, where 24 bits times 29 are exact. */
INLINE gs_angle_f32 gs_angle_of_f32(float a)
{
    gs_angle_f32 nearest = gs_near_angle_f32(a);
    double near_n = gs_nearest_f64(a * 0x1.45f306dc9c883p-1);
    double near = (a - near_n * 0x1.921fb544p0) - near_n * 0x1.0b4611a626331p-34;
    uint64_t bits = gs_to_bits_f64(a);
    int64_t row = (int64_t)(bits >> 56) - 65;
    row = row < 0 ? 0 : row > 6 ? 6 : row;
    double x = gs_of_bits_f64(bits - ((uint64_t)(17 + 16 * row) << 52));
    double p1 = x * gs_turns_f32[row], p2 = x * gs_turns_f32[7 + row];
    double n1 = gs_nearest_f64(p1), n2 = gs_nearest_f64(p2);
    double turn = (p1 - n1) + (p2 - n2);
    double n3 = gs_nearest_f64(turn);
    double far = ((turn - n3) + x * gs_turns_f32[14 + row]) * 0x1.921fb54442d18p0;
    double far_n = (n1 - 4.0 * gs_nearest_f64(0.25 * n1)) + (n2 - 4.0 * gs_nearest_f64(0.25 * n2)) + n3;
    int is_near = a < 0x1p20f;
    float r = (float)(is_near ? near : far);
    r = a < __builtin_inff() ? r : __builtin_nanf("");
    float n = (float)(is_near ? near_n : far_n);
    return (gs_angle_f32){a <= 0x1p15f ? nearest.r : r, a <= 0x1p15f ? nearest.n : n};
}

/* The sine of an angle and n quarters of a turn. */
INLINE float gs_sin_of_f32(gs_angle_f32 angle)
{
    float r = angle.r, z = r * r;
    float s = gs_fma_f32(0x1.7bf19ap-19f, z, -0x1.a058e4p-13f);
    s = gs_fma_f32(s, z, 0x1.111174p-7f);
    s = gs_fma_f32(s, z, -0x1.555556p-3f);
    float c = gs_fma_f32(-0x1.34e50ap-22f, z, 0x1.a06d46p-16f);
    c = gs_fma_f32(c, z, -0x1.6c175ap-10f);
    c = gs_fma_f32(c, z, 0x1.555556p-5f);
    s = gs_fma_f32(r * z, s, r);
    c = gs_fma_f32(z * z, c, gs_fma_f32(z, -0.5f, 1.0f));
    uint32_t quarter = gs_to_bits_f32(angle.n + 0x1.8p23f);
    float found = quarter & 1 ? c : s;
    return gs_of_bits_f32(gs_to_bits_f32(found) ^ (quarter & 2) << 30);
}

INLINE double gs_sin_of_f64(gs_angle_f64 angle)
{
    double r = angle.high, z = r * r;
    double s = gs_fma_f64(0x1.5d7fa340730d8p-33, z, -0x1.ae5e24620d762p-26);
    s = gs_fma_f64(s, z, 0x1.71de3524e070ep-19);
    s = gs_fma_f64(s, z, -0x1.a01a019bb3848p-13);
    s = gs_fma_f64(s, z, 0x1.111111110f594p-7);
    s = gs_fma_f64(s, z, -0x1.5555555555547p-3);
    double c = gs_fma_f64(-0x1.8f8d0cab42964p-37, z, 0x1.1ee9aa4398ba4p-29);
    c = gs_fma_f64(c, z, -0x1.27e4f7a7f352ep-22);
    c = gs_fma_f64(c, z, 0x1.a01a019c27d39p-16);
    c = gs_fma_f64(c, z, -0x1.6c16c16c14bdep-10);
    c = gs_fma_f64(c, z, 0x1.5555555555549p-5);
    double half = 0.5 * z;
    s = r + gs_fma_f64(r * z, s, gs_fma_f64(-half, angle.low, angle.low));
    double most = 1.0 - half;
    c = most + (((1.0 - most) - half) + gs_fma_f64(z * z, c, -r * angle.low));
    uint64_t quarter = gs_to_bits_f64(angle.n + 0x1.8p52);
    double found = quarter & 1 ? c : s;
    return gs_of_bits_f64(gs_to_bits_f64(found) ^ (quarter & 2) << 62);
}

INLINE float gs_tan_of_f32(gs_angle_f32 angle)
{
    float r = angle.r, z = r * r;
    float t = gs_fma_f32(0x1.28ffa4p-8f, z, -0x1.e0c13p-13f);
    t = gs_fma_f32(t, z, 0x1.6b6baap-7f);
    t = gs_fma_f32(t, z, 0x1.5b0c44p-6f);
    t = gs_fma_f32(t, z, 0x1.bb056ep-5f);
    t = gs_fma_f32(t, z, 0x1.110c9cp-3f);
    t = gs_fma_f32(t, z, 0x1.555564p-2f);
    t = gs_fma_f32(r * z, t, r);
    int is_odd = gs_to_bits_f32(angle.n + 0x1.8p23f) & 1;
    return (is_odd ? -1.0f : t) / (is_odd ? t : 1.0f);
}

INLINE double gs_tan_of_f64(gs_angle_f64 angle)
{
    double r = angle.high, z = r * r;
    double t = gs_fma_f64(0x1.4bc41a56bc2fp-18, z, -0x1.e8f14b6177158p-17);
    t = gs_fma_f64(t, z, 0x1.f9ab3e10eda0ap-16);
    t = gs_fma_f64(t, z, -0x1.94efac9df9ed3p-16);
    t = gs_fma_f64(t, z, 0x1.49e0d976da99cp-15);
    t = gs_fma_f64(t, z, 0x1.baf2069205a9fp-16);
    t = gs_fma_f64(t, z, 0x1.ac52732a17525p-14);
    t = gs_fma_f64(t, z, 0x1.f238e56e1d2b1p-13);
    t = gs_fma_f64(t, z, 0x1.35866f88ae8b6p-11);
    t = gs_fma_f64(t, z, 0x1.7d9fa5978911ep-10);
    t = gs_fma_f64(t, z, 0x1.d6d4085a565e7p-9);
    t = gs_fma_f64(t, z, 0x1.226e3442c3bb4p-7);
    t = gs_fma_f64(t, z, 0x1.664f488a281d6p-6);
    t = gs_fma_f64(t, z, 0x1.ba1ba1b9fe1ap-5);
    t = gs_fma_f64(t, z, 0x1.11111111112fp-3);
    t = gs_fma_f64(t, z, 0x1.5555555555554p-2);
    double rest = r * z * t;
    double slope = (r + rest) * (r + rest);
    t = r + (rest + gs_fma_f64(slope, angle.low, angle.low));
    int is_odd = gs_to_bits_f64(angle.n + 0x1.8p52) & 1;
    return (is_odd ? -1.0 : t) / (is_odd ? t : 1.0);
}

INLINE float gs_sin_f32(float x)
{
    float found = gs_sin_of_f32(gs_angle_of_f32(__builtin_fabsf(x)));
    return gs_of_bits_f32(gs_to_bits_f32(found) ^ (gs_to_bits_f32(x) & 0x80000000u));
}

INLINE double gs_sin_f64(double x)
{
    double found = gs_sin_of_f64(gs_angle_of_f64(__builtin_fabs(x)));
    return gs_of_bits_f64(gs_to_bits_f64(found) ^ (gs_to_bits_f64(x) & 0x8000000000000000u));
}

INLINE float gs_cos_f32(float x)
{
    gs_angle_f32 angle = gs_angle_of_f32(__builtin_fabsf(x));
    angle.n += 1.0f;
    return gs_sin_of_f32(angle);
}

INLINE double gs_cos_f64(double x)
{
    gs_angle_f64 angle = gs_angle_of_f64(__builtin_fabs(x));
    angle.n += 1.0;
    return gs_sin_of_f64(angle);
}

INLINE float gs_tan_f32(float x)
{
    float found = gs_tan_of_f32(gs_angle_of_f32(__builtin_fabsf(x)));
    return gs_of_bits_f32(gs_to_bits_f32(found) ^ (gs_to_bits_f32(x) & 0x80000000u));
}

INLINE double gs_tan_f64(double x)
{
    double found = gs_tan_of_f64(gs_angle_of_f64(__builtin_fabs(x)));
    return gs_of_bits_f64(gs_to_bits_f64(found) ^ (gs_to_bits_f64(x) & 0x8000000000000000u));
}

/* The same where the angle of |x| is known. */
INLINE float gs_turned_sin_f32(float x, gs_angle_f32 angle)
{
    return gs_of_bits_f32(gs_to_bits_f32(gs_sin_of_f32(angle)) ^ (gs_to_bits_f32(x) & 0x80000000u));
}

INLINE double gs_turned_sin_f64(double x, gs_angle_f64 angle)
{
    return gs_of_bits_f64(gs_to_bits_f64(gs_sin_of_f64(angle)) ^ (gs_to_bits_f64(x) & 0x8000000000000000u));
}

INLINE float gs_turned_cos_f32(float x, gs_angle_f32 angle)
{
    angle.n += 1.0f;
    return gs_sin_of_f32(angle);
}

INLINE double gs_turned_cos_f64(double x, gs_angle_f64 angle)
{
    angle.n += 1.0;
    return gs_sin_of_f64(angle);
}

INLINE float gs_turned_tan_f32(float x, gs_angle_f32 angle)
{
    return gs_of_bits_f32(gs_to_bits_f32(gs_tan_of_f32(angle)) ^ (gs_to_bits_f32(x) & 0x80000000u));
}

INLINE double gs_turned_tan_f64(double x, gs_angle_f64 angle)
{
    return gs_of_bits_f64(gs_to_bits_f64(gs_tan_of_f64(angle)) ^ (gs_to_bits_f64(x) & 0x8000000000000000u));
}

/* The same for |x| <= 2^15 (float64: 2^20), at half the cost. */
INLINE float gs_near_sin_f32(float x)
{
    float found = gs_sin_of_f32(gs_near_angle_f32(__builtin_fabsf(x)));
    return gs_of_bits_f32(gs_to_bits_f32(found) ^ (gs_to_bits_f32(x) & 0x80000000u));
}

INLINE double gs_near_sin_f64(double x)
{
    double found = gs_sin_of_f64(gs_near_angle_f64(__builtin_fabs(x)));
    return gs_of_bits_f64(gs_to_bits_f64(found) ^ (gs_to_bits_f64(x) & 0x8000000000000000u));
}

INLINE float gs_near_cos_f32(float x)
{
    gs_angle_f32 angle = gs_near_angle_f32(__builtin_fabsf(x));
    angle.n += 1.0f;
    return gs_sin_of_f32(angle);
}

INLINE double gs_near_cos_f64(double x)
{
    gs_angle_f64 angle = gs_near_angle_f64(__builtin_fabs(x));
    angle.n += 1.0;
    return gs_sin_of_f64(angle);
}

INLINE float gs_near_tan_f32(float x)
{
    float found = gs_tan_of_f32(gs_near_angle_f32(__builtin_fabsf(x)));
    return gs_of_bits_f32(gs_to_bits_f32(found) ^ (gs_to_bits_f32(x) & 0x80000000u));
}

INLINE double gs_near_tan_f64(double x)
{
    double found = gs_tan_of_f64(gs_near_angle_f64(__builtin_fabs(x)));
    return gs_of_bits_f64(gs_to_bits_f64(found) ^ (gs_to_bits_f64(x) & 0x8000000000000000u));
}
