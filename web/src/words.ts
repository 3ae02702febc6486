/** Words and numbers as people read them. */

const CONTROLS: Record<string, string> = { '\n': '↵', '\t': '⇥', '\r': '␍', ' ': '␣' };

/** What cannot be seen gets a sign. */
function visible(text: string): string {
  return text.replace(/[\u0000-\u001f\u007f]/g, (c) => CONTROLS[c] ?? (c === '\u007f' ? '␡' : String.fromCharCode(0x2400 + c.charCodeAt(0))));
}

/** Whether a space stands before the word; and the word, or signs where it is only space. */
export function parts(text: string): { gap: boolean; word: string } {
  if (text === '') return { gap: false, word: '∅' };
  if (text.trim() === '') return { gap: false, word: visible(text).replaceAll(' ', '␣') };
  return { gap: text.startsWith(' '), word: visible(text.startsWith(' ') ? text.slice(1) : text) };
}

export const word = (text: string | undefined): string => parts(text ?? '').word;

export function short(text: string | undefined, length = 14): string {
  const characters = [...word(text)];
  return characters.length > length ? characters.slice(0, length - 1).join('') + '…' : characters.join('');
}

const MINUS = '−';
type Maybe = number | null | undefined;
const known = (x: Maybe): x is number => typeof x === 'number' && Number.isFinite(x);

/** 23500000000 as 2.35×10¹⁰. */
function powered(size: number): string {
  const [front, power] = size.toExponential(2).split('e+');
  return `${front}×10${[...power].map((digit) => '⁰¹²³⁴⁵⁶⁷⁸⁹'[Number(digit)]).join('')}`;
}

/** Digits after the point that tell values apart of which the largest is `most`. */
export const digits = (most: number): number => (most >= 1 ? 2 : most >= 0.1 ? 3 : most >= 0.01 ? 4 : 5);

export function number(x: Maybe, digits = 2): string {
  if (!known(x)) return '–';
  const size = Math.abs(x);
  if (size >= 1e6) return (x < 0 ? MINUS : '') + powered(size);
  const text = size >= 1000 ? Math.round(size).toLocaleString('en') : size.toFixed(digits);
  return x < 0 && Number(text) !== 0 ? MINUS + text : text;
}

/** A probability or a weight. */
export function share(p: Maybe): string {
  if (!known(p)) return '–';
  return p > 0 && p < 0.001 ? '<0.001' : p.toFixed(p < 0.0995 ? 3 : 2);
}

export function count(n: Maybe): string {
  if (!known(n)) return '–';
  const units: [number, string][] = [[1e12, ' T'], [1e9, ' G'], [1e6, ' M'], [1e4, ' k']];
  for (const [size, unit] of units)
    if (n >= size) {
      const scaled = n / (unit === ' k' ? 1e3 : size);
      return scaled.toFixed(scaled < 10 ? 2 : scaled < 100 ? 1 : 0) + unit;
    }
  return n.toLocaleString('en');
}
