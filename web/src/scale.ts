/** A straight line from one interval to another: all that is needed here of a scale. */
import { nice, ticks } from 'd3-array';

export interface Scale {
  (value: number): number;
  ticks(count: number): number[];
}

export function scale(domain: [number, number], range: [number, number], rounded?: number): Scale {
  const [from, to] = rounded ? nice(domain[0], domain[1], rounded) : domain;
  const place = (value: number) => range[0] + ((value - from) / (to - from || 1)) * (range[1] - range[0]);
  return Object.assign(place, { ticks: (count: number) => ticks(from, to, count) });
}
