// Structured logs without secrets. Bodies, headers, URLs and parameters are never logged. A database error is logged
// with its code, routine, table and constraint, but without its message, which quotes values.
import { type DestinationStream, type Logger, pino } from 'pino'
import type { Answered } from './http/observation.ts'

export interface Log extends Pick<Logger, 'debug' | 'info' | 'warn' | 'error' | 'fatal'> {
  /**
   * One line per answer. Most lines are of this kind and its values need no escaping, so it is written without pino,
   * which takes longer.
   */
  answered(answer: Answered): void
}

export function createLog(level: string, destination: DestinationStream = outputLines()): Log {
  const options = {
    level,
    base: null,
    timestamp,
    formatters: { level: (label: string) => ({ level: label }) },
    serializers: { err: describeError },
  }
  const logger = pino(options, destination)
  const isSilent = !logger.isLevelEnabled('info')
  return Object.assign(logger, {
    answered(answer: Answered) {
      if (isSilent) return
      const { id, traceId, method, project, role, service, route, status, ms, bytesIn, bytesOut } = answer
      const trace = traceId === null ? '' : `,"trace_id":"${traceId}"`
      const caller = role === undefined ? '' : `,"role":"${role}"`
      const where = project === undefined ? '' : `,"project":"${project}"`
      destination.write(
        `{"level":"info"${timestamp()},"id":"${id}"${trace},"method":"${method}"${where}${caller},"service":"${service}","route":"${route}","status":${status},"ms":${ms},"bytes_in":${bytesIn},"bytes_out":${bytesOut},"msg":"request"}\n`,
      )
    },
  })
}

/** Writes lines to standard output in batches, and flushes them when the process ends. */
function outputLines(): DestinationStream {
  const output = pino.destination({ dest: 1, sync: false, minLength: 8192, periodicFlush: 100 })
  output.on('error', () => {}) // the reader of the log has closed the pipe; that must not end the platform
  process.on('exit', () => output.flushSync())
  return output
}

/** Formatted once per millisecond, not once per line. */
let lastMs = 0
let lastTimestamp = ''
function timestamp(): string {
  const now = Date.now()
  if (now !== lastMs) {
    lastMs = now
    lastTimestamp = `,"time":"${new Date(now).toISOString()}"`
  }
  return lastTimestamp
}

/** One readable line per entry, for a person at a terminal. */
export const terminalLines = (write: (line: string) => void): DestinationStream => ({
  write(entry) {
    const { time, level, msg, err, ...rest } = JSON.parse(entry) as Record<string, unknown>
    const facts = Object.entries(rest).map(([key, value]) => `${key}=${show(value)}`)
    const failure = err ? [`error=${show((err as { message?: unknown }).message ?? err)}`] : []
    write(
      `${String(time).slice(11, 19)} ${String(level).padEnd(5)} ${[msg, ...facts, ...failure].join(' ')}\n`,
    )
  },
})

const show = (value: unknown) => (typeof value === 'string' ? value : JSON.stringify(value))

function describeError(error: unknown): unknown {
  if (!(error instanceof Error)) return { type: typeof error }
  const { code, routine, table, constraint } = error as Error & Record<string, unknown>
  const isFromDatabase = typeof code === 'string' && /^(\d[\dA-Z]|F0|HV|P0|XX)[\dA-Z]{3}$/.test(code)
  return {
    type: error.name,
    message: isFromDatabase ? `SQLSTATE ${code}` : error.message,
    ...(code !== undefined && { code }),
    ...(isFromDatabase && { routine, table, constraint }),
    stack: frames(error),
    ...(error.cause !== undefined && { cause: describeError(error.cause) }),
  }
}

/** The stack without its first lines, which repeat the message. */
const frames = (error: Error) =>
  error.stack
    ?.split('\n')
    .filter(line => /^\s+at /.test(line))
    .map(line => line.trim())
