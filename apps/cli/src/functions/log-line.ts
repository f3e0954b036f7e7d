// A line of the log of a function, as text.
import type { FunctionLog } from '@plinth/contract/functions.ts'
import { clean, type Paint } from '../print.ts'

export type Level = FunctionLog['level']

/** `2026-01-31T09:30:00.000Z  info   POST 200 in 12.3 ms` */
export function logLine(paint: Paint, line: FunctionLog): string {
  return textLine(paint, line.timestamp, line.level, messageOf(line))
}

function messageOf({ event, message, duration_ms, is_cold }: FunctionLog): string {
  if (event === 'start') return `${message} started`
  if (event !== 'end') return message
  const duration = duration_ms === null ? '' : ` in ${duration_ms} ms`
  return `${message}${duration}${is_cold ? ', with a new worker' : ''}`
}

export const textLine = (paint: Paint, timestamp: string, level: Level, message: string): string =>
  `${lineStart(paint, timestamp, level)}  ${cleanMessage(message)}`

/** Further lines of a message are indented, so that a message cannot look like two. */
export const cleanMessage = (message: string): string => clean(message).trimEnd().replaceAll('\n', '\n  ')

export function lineStart(paint: Paint, timestamp: string, level: Level): string {
  const colored = { debug: paint.dim, info: paint.dim, log: paint.bold, warn: paint.yellow, error: paint.red }
  return `${paint.dim(clean(timestamp))}  ${colored[level](level.padEnd(5))}`
}
