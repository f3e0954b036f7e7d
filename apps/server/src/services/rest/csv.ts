// CSV as rows: a line of names, then lines of values; NULL without quotes is null.
import { isUtf8 } from 'node:buffer'
import { badBody } from './bad-body.ts'

export function parseCsv(body: Buffer): Record<string, string | null>[] {
  if (!isUtf8(body)) throw badBody('The body is not valid UTF-8')
  const [header, ...lines] = cells(body.toString('utf8').replace(/^\uFEFF/, ''))
  if (!header) throw badBody('The CSV has no header line')
  const names = header.map(({ text }) => text)
  if (new Set(names).size < names.length) throw badBody('The CSV names a column twice')
  return lines.map((line, index) => {
    if (line.length !== names.length)
      throw badBody(
        `Line ${index + 2} of the CSV has ${line.length} values, its header ${names.length} names`,
      )
    return Object.fromEntries(
      line.map(({ text, isQuoted }, at) => [names[at]!, text === 'NULL' && !isQuoted ? null : text]),
    )
  })
}

interface Cell {
  text: string
  isQuoted: boolean
}

const bare = /[^,\r\n]*/y
const lineEnd = /\r?\n/y

function cells(text: string): Cell[][] {
  const lines: Cell[][] = []
  let line: Cell[] = []
  let at = 0
  while (at < text.length) {
    const { cell, end } = text[at] === '"' ? quotedCell(text, at) : bareCell(text, at)
    line.push(cell)
    at = end
    if (text[at] === ',') {
      at++
      if (at === text.length) line.push({ text: '', isQuoted: false })
      continue
    }
    lineEnd.lastIndex = at
    const ending = lineEnd.exec(text)
    if (!ending && at < text.length)
      throw badBody(`Unexpected text after a quote at character ${at + 1} of the CSV`)
    lines.push(line)
    line = []
    at += ending?.[0].length ?? 0
  }
  return line.length > 0 ? [...lines, line] : lines
}

function bareCell(text: string, at: number): { cell: Cell; end: number } {
  bare.lastIndex = at
  const found = bare.exec(text)![0]
  return { cell: { text: found, isQuoted: false }, end: at + found.length }
}

function quotedCell(text: string, at: number): { cell: Cell; end: number } {
  let out = ''
  for (let from = at + 1; ; ) {
    const quote = text.indexOf('"', from)
    if (quote < 0) throw badBody(`A quote at character ${at + 1} of the CSV is never closed`)
    out += text.slice(from, quote)
    if (text[quote + 1] !== '"') return { cell: { text: out, isQuoted: true }, end: quote + 1 }
    out += '"'
    from = quote + 2
  }
}
