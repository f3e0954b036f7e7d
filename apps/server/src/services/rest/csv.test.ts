import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Refusal } from '#src/kernel/errors.ts'
import { atOnce } from '#src/kernel/slices.ts'
import { csvRows } from './csv.ts'
import { sliceBytes } from './json-scan.ts'

const read = (text: string) => atOnce(csvRows(Buffer.from(text)))
const rows = (text: string) => JSON.parse(read(text).json.toString())

test('csv: the header line names the values of the other lines', () => {
  assert.deepEqual(rows('a,b\n1,x\r\n2,"y, z"\n'), [
    { a: '1', b: 'x' },
    { a: '2', b: 'y, z' },
  ])
  const { names, count } = read('a,b\n1,x\r\n2,"y, z"\n')
  assert.deepEqual([names, count], [['a', 'b'], 2])
})

test('csv: a quoted value may contain commas, line ends and doubled quotes', () => {
  assert.deepEqual(rows('a,b\n"l1\nl2","say ""hi"""'), [{ a: 'l1\nl2', b: 'say "hi"' }])
  assert.deepEqual(rows('"a,""b"""\nx"y\n""\n""""\n'), [
    { 'a,"b"': 'x"y' },
    { 'a,"b"': '' },
    { 'a,"b"': '"' },
  ])
})

test('csv: NULL is null, "NULL" is a text, and an empty cell is an empty text', () => {
  assert.deepEqual(rows('a,b,c\nNULL,"NULL",'), [{ a: null, b: 'NULL', c: '' }])
  assert.deepEqual(rows('NULL\nNULL\nNULLX\nXNULL\nNULL'), [
    { NULL: null },
    { NULL: 'NULLX' },
    { NULL: 'XNULL' },
    { NULL: null },
  ])
})

test('csv: a byte order mark does not belong to the first name', () => {
  assert.deepEqual(rows('\uFEFFa\n1'), [{ a: '1' }])
})

test('csv: every character is preserved', () => {
  const text = `\\ / \b\f\t\u0001\u001f ü€😀 {}[]:`
  assert.deepEqual(rows(`a\n${text}\n`), [{ a: text }])
  assert.deepEqual(rows(`"${text.repeat(3)}"\n1\n`), [{ [text.repeat(3)]: '1' }])
})

test('csv: a header alone has no rows, and an empty line is a row with one empty text', () => {
  assert.deepEqual(rows('a,b\n'), [])
  assert.deepEqual(rows('a\n\n\n'), [{ a: '' }, { a: '' }])
})

test('csv: the positions of the first row’s values in the JSON are returned', () => {
  const { json, first } = read('a,b\nx,NULL\ny,z')
  assert.deepEqual(
    first.map(({ from, to }) => json.toString('utf8', from, to)),
    ['"x"', 'null'],
  )
})

const refused: [text: string, message: RegExp][] = [
  ['', /no header line/],
  ['\uFEFF', /no header line/],
  ['a,a\n1,2', /names a column twice/],
  ['a,b\n1,2\n1', /Line 3 of the CSV has 1 values, its header 2 names/],
  ['a\n1,2', /Line 2 of the CSV has more values than its header has names \(1\)/],
  ['a\n1\n"open', /quote on line 3 of the CSV is never closed/],
  ['a\n"x"y', /after a quote on line 2/],
  ['a\nx\ry', /carriage return without a line feed on line 2/],
  ['a\nx\r', /carriage return without a line feed on line 2/],
  [`${Array.from({ length: 1665 }, (_, index) => `c${index}`).join()}\n`, /more than 1664 columns/],
]
for (const [text, message] of refused)
  test(`csv: ${JSON.stringify(text.slice(0, 30))} is refused`, () =>
    assert.throws(() => rows(text), { code: 'PGRST102', message }))

/** Runs to the end or to an error, and counts the slices. */
function counted(text: string): { slices: number; error?: Refusal; bytes?: number } {
  const work = csvRows(Buffer.from(text))
  let slices = 0
  try {
    for (;;) {
      slices++
      const { done, value } = work.next()
      if (done) return { slices, bytes: value.json.length }
    }
  } catch (error) {
    return { slices, error: error as Refusal }
  }
}

test('csv: too many cells are refused, and the rest of the text is not read', () => {
  const { slices, error } = counted(`a\n${'\n'.repeat(9_000_000)}`)
  assert.deepEqual([error?.status, error?.code], [413, 'body_too_large'])
  // An empty line is one byte of CSV and nine bytes of JSON.
  assert.equal(slices, Math.ceil((500_000 * 10) / sliceBytes))
  assert.equal(counted(`a\n${'\n'.repeat(499_999)}`).error, undefined)
})

test('csv: a slice reads and writes a limited number of bytes', () => {
  const bytes = 2 * 1024 * 1024
  for (const text of [
    `a\n${'x'.repeat(bytes)}`,
    `a\n"${'""'.repeat(bytes / 2)}"`,
    `a,b\n${'x,y\n'.repeat(200_000)}`,
    `${'a'.repeat(63)}\n${'x\n'.repeat(100_000)}`,
    `a\n"${'\n'.repeat(bytes)}"`,
  ]) {
    const { slices, error, bytes: written } = counted(text)
    assert.equal(error, undefined)
    const work = text.length + written!
    // One cell or one escape may end behind the end of a slice.
    assert.ok(slices > work / (sliceBytes * 4), `${slices} slices for ${work} bytes: ${text.slice(0, 20)}`)
  }
})

test('csv: long names in every row do not make the JSON much larger than the CSV', () => {
  assert.equal(counted(`a\n${'\u0001'.repeat(9_000_000)}`).error?.code, 'body_too_large')
  const long = 'x'.repeat(1_000_000)
  const { json, names } = read(`${long},b\n${'1,2\n'.repeat(1000)}`)
  assert.ok(json.length < 20_000, 'values of a name that is too long are dropped')
  assert.equal(names[0]!.length, 100)
})
