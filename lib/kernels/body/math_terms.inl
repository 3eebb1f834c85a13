// The numbers behind math.inl, per type. Each list holds a polynomial's coefficients, lowest first: the
// minimax fit of the function named beside it (Remez), rounded coefficient after coefficient.

template <class T>
constexpr T from_bits(unsigned long long bits) {
  if constexpr (sizeof(T) == sizeof(float))
    return __builtin_bit_cast(float, static_cast<unsigned>(bits));
  else
    return __builtin_bit_cast(double, bits);
}

template <class T>
struct Terms;

template <>
struct Terms<float> {
  static constexpr int kMantissa = 23;               // stored bits of the significand
  static constexpr float kOneAndHalf = 12582912.0f;  // 1.5 2^23: a sum with it is an integer, in its low bits
  static constexpr float kExponent = 8388608.0f;     // 2^23: its low bits hold an integer
  static constexpr float kBias = 127.0f;
  static constexpr float kSmallest = 1.17549435e-38f;  // the smallest normal number
  static constexpr float kSign = -0.0f;
  static constexpr float kMagnitude = from_bits<float>(0x7fffffff);
  static constexpr float kFraction = from_bits<float>(0x007fffff);
  static constexpr float kRootHalf = from_bits<float>(0x3f3504f3);
  static constexpr float kOneOverRootHalf =
      from_bits<float>(0x3f800000 - 0x3f3504f3);  // as a difference of bits
  static constexpr float kInfinity = __builtin_inff();

  static constexpr float kLn2[] = {0.693147182f, -1.90465421e-9f};        // their sum has twice the digits
  static constexpr float kExpLow = -87.3365402f, kExpHigh = 88.7228317f;  // the last with a normal result
  static constexpr float kMinusOne = -20.0f;  // from here down exp(x) - 1 is -1

  // (exp(r) - 1 - r) / r^2 on |r| <= ln2 / 2: 2^-26 of exp(r) - 1.
  static constexpr float kExp[] = {0.49999997f, 0.166665375f, 0.0416677408f, 0.00836731959f, 0.00138378248f};
  // (2 atanh(s) / s - 2) / z, z = s^2 <= 0.0295: 2^-29 of the logarithm.
  static constexpr float kLog[] = {0.666667759f, 0.399775684f, 0.298714608f};
  // (tanh(x) - x) / x^3 in z = x^2, |x| <= 0.55: 2^-29 of tanh.
  static constexpr float kTanh[] = {-0.333333164f, 0.133325443f, -0.0538475476f, 0.021050714f,
                                    -0.0062428494f};
  // erf(x) / x - 1 in z = x^2 <= 1: 2^-29 of erf.
  static constexpr float kErf[] = {0.128379166f,  -0.37612626f,    0.112835787f,   -0.0268533472f,
                                   0.0051871622f, -0.00079978531f, 7.80690316e-05f};
  // exp(u^2) erfc(u) / 2 = over / under on [0, 9.5]: 2^-28. Scaled so that rounding costs least.
  static constexpr float kTailOver[] = {0.843385696f, 1.1966759f,    0.827412069f,
                                        0.329351962f, 0.0750449374f, 0.00795819238f};
  static constexpr float kTailUnder[] = {1.68677139f, 4.29666948f,  4.81632519f,  3.06555247f,
                                         1.18167412f, 0.266025096f, 0.0282111075f};
  static constexpr float kErfOne = 4.0f;    // from here on erf is 1
  static constexpr float kGeluEnd = 14.0f;  // from here on Phi(-x) is 0

  static constexpr float kHalfPi[] = {1.57079637f, -4.37113883e-8f, -1.71512451e-15f};
  static constexpr float kHuge = 65536.0f;  // angles below reduce well by three parts of pi / 2
  // (sin(r) - r) / r^3 in z = r^2, |r| <= pi / 4: 2^-27 of the sine.
  static constexpr float kSin[] = {-0.166666538f, 0.00833210163f, -0.000195068482f};
  // (cos(r) - 1 + z / 2) / z^2: 2^-33.
  static constexpr float kCos[] = {0.0416666456f, -0.00138873002f, 2.4430421e-05f};
};

template <>
struct Terms<double> {
  static constexpr int kMantissa = 52;
  static constexpr double kOneAndHalf = 6755399441055744.0;
  static constexpr double kExponent = 4503599627370496.0;
  static constexpr double kBias = 1023.0;
  static constexpr double kSmallest = 2.2250738585072014e-308;
  static constexpr double kSign = -0.0;
  static constexpr double kMagnitude = from_bits<double>(0x7fffffffffffffff);
  static constexpr double kFraction = from_bits<double>(0x000fffffffffffff);
  static constexpr double kRootHalf = from_bits<double>(0x3fe6a09e667f3bcd);
  static constexpr double kOneOverRootHalf = from_bits<double>(0x3ff0000000000000 - 0x3fe6a09e667f3bcd);
  static constexpr double kInfinity = __builtin_inf();

  static constexpr double kLn2[] = {0.69314718055994529, 2.3190468138462996e-17};
  static constexpr double kExpLow = -746.0, kExpHigh = 709.78271289338397;
  static constexpr double kMinusOne = -40.0;

  // 2^-61
  static constexpr double kExp[] = {0.5,
                                    0.16666666666666677,
                                    0.041666666666666671,
                                    0.008333333333321721,
                                    0.0013888888888900506,
                                    0.00019841269885646255,
                                    2.4801587267022852e-05,
                                    2.7557244763257151e-06,
                                    2.7557338470439691e-07,
                                    2.5108845449685143e-08,
                                    2.0891500824445544e-09};
  // 2^-58
  static constexpr double kLog[] = {0.66666666666667351, 0.39999999999409364, 0.28571428743683003,
                                    0.22222198429375145, 0.18183572333455172, 0.15313832725991383,
                                    0.1479825307069858};
  // For pow: (2 atanh(s) - 2 s - 2/3 s^3) / s^5 in z, 2^-66 of the logarithm; and 2/3 to twice the digits.
  static constexpr double kLogRest[] = {0.4,                 0.28571428571429364, 0.22222222221655885,
                                        0.18181818335392802, 0.1538459496251843,  0.1333480469384731,
                                        0.11706236339491206, 0.11723178623876518};
  static constexpr double kTwoThirds[] = {0.6666666666666666, 3.700743415417188e-17};
  // 2^-60
  static constexpr double kTanh[] = {-0.33333333333333298,   0.1333333333332658,     -0.053968253963737146,
                                     0.02186948838519305,    -0.0088632325908007976, 0.0035920919258017898,
                                     -0.0014555421937025588, 0.00058844190335841735, -0.00023337526616353272,
                                     8.3307824930680549e-05, -1.9489618452010154e-05};
  // 2^-56
  static constexpr double kErf[] = {0.12837916709551259,     -0.37612638903184098,    0.11283791670971098,
                                    -0.026866170648031283,   0.005223977652698622,    -0.00085483285366805902,
                                    0.00012055386256199547,  -1.4926883996119002e-05, 1.6481120435028984e-06,
                                    -1.6558049400218974e-07, 1.6021481285273943e-08,  -1.6505506793177795e-09,
                                    1.4428702317264342e-10};
  // On [0, 27.5]: 2^-56.
  static constexpr double kTailOver[] = {
      0.52292404615102506,   1.3070889349527919,     1.6212796155965998,     1.2960060869380696,
      0.73546767717702111,   0.30968993535848,       0.098546641245797456,   0.023701187614396022,
      0.0042306532341634655, 0.00053592734560999229, 4.3649989181149983e-05, 1.7505365624461956e-06};
  static constexpr double kTailUnder[] = {
      1.0458480923020501,    3.7942910692058018,   6.4781101352795343,    6.8942277563368668,
      5.1034701439779333,    2.7745291691486624,   1.1388893498038033,    0.3567600175112699,
      0.084965326260552906,  0.015074642824841814, 0.0019029157203362252, 0.00015473518283221589,
      6.2054905425173846e-06};
  static constexpr double kErfOne = 6.0, kGeluEnd = 40.0;

  static constexpr double kHalfPi[] = {1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33};
  static constexpr double kHuge = 1073741824.0;
  // 2^-57
  static constexpr double kSin[] = {-0.16666666666666632,  0.0083333333333224548,   -0.00019841269829813413,
                                    2.755731368756912e-06, -2.5050756713273798e-08, 1.589668176513053e-10};
  // 2^-64
  static constexpr double kCos[] = {0.041666666666666602,    -0.0013888888888874441, 2.4801587289636307e-05,
                                    -2.7557314387465934e-07, 2.0875727058219466e-09, -1.1359802423080122e-11};
};

// The binary digits of 2 / pi, after 64 zeros.
constexpr unsigned long long kTwoOverPi[] = {
    0x0000000000000000, 0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041, 0xfe5163abdebbc561,
    0xb7246e3a424dd2e0, 0x06492eea09d1921c, 0xfe1deb1cb129a73e, 0xe88235f52ebb4484, 0xe99c7026b45f7e41,
    0x3991d639835339f4, 0x9c845f8bbdf9283b, 0x1ff897ffde05980f, 0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7,
    0x4f463f669e5fea2d, 0x7527bac7ebe5f17b, 0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08, 0x56033046fc7b6bab};
