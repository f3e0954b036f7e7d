// Messages between the platform and the render process.
import type { Format, Transformation } from './transformation.ts'

/** The source is sent over standard input. As a message it would be copied in both processes, each time in one block. */
export interface Job {
  sourceBytes: number
  transformation: Transformation
  format: Format
}

export type Problem =
  | 'not an image'
  | 'too many pixels'
  | 'damaged'
  | 'too long'
  | 'too much memory'
  | 'too large'

/** `shouldRestart`: the process holds so much memory that a new one should do the next job. */
export type Answer =
  | { bytes: Uint8Array; contentType: string; shouldRestart: boolean }
  | { problem: Problem; shouldRestart: boolean }

export interface Limits {
  seconds: number
  pixels: number
  resultBytes: number
  memoryBytes: number
}
