// What the platform and the process that renders tell each other.
import type { Format, Transformation } from './transformation.ts'

/** The source itself comes over standard input: as a message it would be copied, in one piece, here and there. */
export interface Job {
  sourceBytes: number
  wanted: Transformation
  format: Format
}

export type Problem =
  | 'not an image'
  | 'too many pixels'
  | 'damaged'
  | 'too long'
  | 'too much memory'
  | 'too large'

/** `isSpent`: so much memory is held that a new process should do the next one. */
export type Answer =
  | { bytes: Uint8Array; contentType: string; isSpent: boolean }
  | { problem: Problem; isSpent: boolean }

export interface Limits {
  seconds: number
  pixels: number
  resultBytes: number
  memoryBytes: number
}
