// All output of the command line: the result on stdout, everything else on stderr.
import { once } from 'node:events'
import type { Answer } from './context.ts'
import type { Failure } from './failure.ts'
import type { Io } from './io.ts'

export type Format = 'text' | 'json' | 'env'

export interface Paint {
  bold(text: string): string
  dim(text: string): string
  red(text: string): string
  green(text: string): string
  yellow(text: string): string
}

export interface Screen {
  readonly format: Format
  /** stdout is a terminal, so a secret may be shown. */
  readonly isTerminal: boolean
  /** Prompts are possible. */
  readonly isInteractive: boolean
  readonly isDebug: boolean
  answer(answer: Answer): void
  /** One item of a stream, as a line of text or JSON. */
  item(item: Pick<Answer, 'data'> & Partial<Pick<Answer, 'text'>>): void
  /** A part of a result that is passed on as it is. */
  write(part: string | Uint8Array): Promise<void>
  failure(command: string, failure: Failure): void
  /** Printed before a prompt; not with JSON. */
  hint(line: string): void
  /** Printed in every format. */
  warn(line: string): void
  /** A finished phase. */
  step(line: string): void
  /** A phase that takes some time. */
  progress(line: string): void
  debug(line: string): void
}

export interface ScreenOptions {
  format: Format
  hasColor: boolean
  isDebug: boolean
}

export function openScreen(
  { stdin, stdout, stderr }: Pick<Io, 'stdin' | 'stdout' | 'stderr'>,
  { format, hasColor, isDebug }: ScreenOptions,
): Screen {
  const out = paint(hasColor && stdout.isTTY)
  const err = paint(hasColor && stderr.isTTY)
  const printLine = (line: string) => stderr.write(`${line}\n`)
  const json = (value: unknown) => stdout.write(`${JSON.stringify(value, null, stdout.isTTY ? 2 : 0)}\n`)
  return {
    format,
    isTerminal: stdout.isTTY === true,
    isInteractive: stdin.isTTY === true && stderr.isTTY === true,
    isDebug,
    answer(answer) {
      if (answer.wasStreamed) return
      if (format === 'json') json({ ok: true, data: answer.data ?? null })
      else if (format === 'env') stdout.write(envLines(answer.env ?? {}))
      else {
        const text = answer.text(out)
        if (text !== '') stdout.write(`${text}\n`)
        for (const hint of answer.hints ?? []) printLine(hint)
      }
    },
    item({ data, text }) {
      stdout.write(`${format === 'json' || !text ? JSON.stringify(data) : text(out)}\n`)
    },
    async write(part) {
      if (!stdout.write(part)) await once(stdout, 'drain')
    },
    failure(command, { code, message, suggestion }) {
      if (format === 'json') json({ ok: false, error: { code, message, suggestion } })
      else {
        printLine(`${err.red('error:')} plinth ${command} failed (${code})`.replace('plinth  ', 'plinth '))
        printLine(`  why: ${clean(message)}`)
        if (suggestion !== null) printLine(`  fix: ${clean(suggestion)}`)
      }
    },
    hint: line => format !== 'json' && printLine(line),
    warn: line => printLine(`${err.yellow('warning:')} ${line}`),
    step: line => printLine(`${err.green('✓')} ${line}`),
    progress: line => printLine(err.dim(`… ${line}`)),
    debug: line => isDebug && printLine(err.dim(line)),
  }
}

export function paint(hasColor: boolean | undefined): Paint {
  const wrap = (open: number, close: number) => (text: string) =>
    hasColor ? `\x1b[${open}m${text}\x1b[${close}m` : text
  return { bold: wrap(1, 22), dim: wrap(2, 22), red: wrap(31, 39), green: wrap(32, 39), yellow: wrap(33, 39) }
}

/** Names come from other people, so their control characters must not reach the terminal. */
export function clean(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are replaced here
  return text.replace(/[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, '�')
}

export type Cell = string | number | null

export function table(paint: Paint, head: readonly string[], rows: readonly (readonly Cell[])[]): string {
  const cells = rows.map(row => row.map(shown))
  const widths = head.map((title, i) => Math.max(title.length, ...cells.map(row => row[i]?.length ?? 0)))
  const line = (row: readonly string[]) =>
    row
      .map((cell, i) => cell.padEnd(widths[i] ?? 0))
      .join('  ')
      .trimEnd()
  return [paint.dim(line(head)), ...cells.map(line)].join('\n')
}

/** A titled group of labelled values in a rounded frame. */
export function panel(paint: Paint, title: string, rows: readonly (readonly [string, Cell])[]): string {
  const cells = rows.map(([label, value]) => [label, shown(value)] as const)
  const left = Math.max(...cells.map(([label]) => label.length))
  const right = Math.max(...cells.map(([, value]) => value.length), title.length - left - 2)
  const bar = (a: string, b: string, c: string) =>
    paint.dim(`${a}${'─'.repeat(left + 2)}${b}${'─'.repeat(right + 2)}${c}`)
  const side = paint.dim('│')
  const body = cells.map(
    ([label, value]) => `${side} ${label.padEnd(left)} ${side} ${value.padEnd(right)} ${side}`,
  )
  const head = `${side} ${paint.bold(title.padEnd(left + right + 3))} ${side}`
  return [bar('╭', '─', '╮'), head, bar('├', '┬', '┤'), ...body, bar('╰', '┴', '╯')].join('\n')
}

/** Labelled values without a frame. */
export function fields(paint: Paint, rows: readonly (readonly [string, Cell])[]): string {
  const width = Math.max(...rows.map(([label]) => label.length))
  return rows.map(([label, value]) => `  ${paint.dim(label.padEnd(width))}  ${shown(value)}`).join('\n')
}

const shown = (cell: Cell) => (cell === null || cell === '' ? '-' : clean(String(cell)).replace(/\s+/g, ' '))

/** `2026-01-31 09:30`, in UTC. */
export const minute = (timestamp: string | null): string =>
  timestamp === null ? '-' : new Date(timestamp).toISOString().slice(0, 16).replace('T', ' ')

export function bytes(count: number): string {
  const units = ['B', 'kB', 'MB', 'GB', 'TB']
  let size = count
  let unit = 0
  for (; size >= 1000 && unit < units.length - 1; unit++) size /= 1000
  return `${unit === 0 ? size : size.toFixed(1)} ${units[unit]}`
}

export function duration(seconds: number): string {
  const [days, hours, minutes] = [seconds / 86_400, (seconds / 3600) % 24, (seconds / 60) % 60].map(
    Math.floor,
  )
  if (days) return `${days}d ${hours}h`
  if (hours) return `${hours}h ${minutes}m`
  return minutes ? `${minutes}m ${Math.floor(seconds % 60)}s` : `${Math.floor(seconds)}s`
}

/** Enough of a secret to tell two apart, too little to use it. */
export const mask = (secret: string): string =>
  secret.length < 16 ? '••••••••' : `${secret.slice(0, 4)}••••••••`

/** For shells and `.env` parsers: in double quotes, unless the value has characters that are special there. */
export function envLines(values: Record<string, string>): string {
  const quoted = (value: string) =>
    /["$`\\!\n]/.test(value) ? `'${value.replaceAll("'", `'\\''`)}'` : `"${value}"`
  return Object.entries(values)
    .map(([name, value]) => `${name}=${quoted(value)}\n`)
    .join('')
}
