import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { test } from 'node:test'
import { parseEnv } from 'node:util'
import { bytes, clean, duration, envLines, mask, paint, panel, table } from './print.ts'

const plain = paint(false)

test('print: control characters in names do not reach the terminal', () => {
  const name = 'evil\x1b[2J\x1b]0;title\x07\u202Eword'
  assert.equal(clean(name), 'evil�[2J�]0;title��word')
  assert.ok(!table(plain, ['NAME'], [[name]]).includes('\x1b'))
  assert.equal(table(plain, ['A', 'B'], [['x\ny', null]]), 'A    B\nx y  -')
})

test('print: colours appear only when they are on', () => {
  assert.equal(paint(false).red('x'), 'x')
  assert.equal(paint(true).red('x'), '\x1b[31mx\x1b[39m')
})

test('print: a panel is as wide as its widest value', () => {
  assert.deepEqual(
    panel(plain, 'Keys', [
      ['A', 'one'],
      ['LONG', null],
    ]).split('\n'),
    [
      '╭────────────╮',
      '│ Keys       │',
      '├──────┬─────┤',
      '│ A    │ one │',
      '│ LONG │ -   │',
      '╰──────┴─────╯',
    ],
  )
})

test('print: a mask shows too little of a secret to use it', () => {
  assert.equal(mask('short'), '••••••••')
  assert.equal(mask('platform_pat_0123456789'), 'plat••••••••')
})

test('print: bytes and durations have units', () => {
  assert.deepEqual([0, 999, 56_500_000].map(bytes), ['0 B', '999 B', '56.5 MB'])
  assert.deepEqual([5, 65, 3700, 90_000].map(duration), ['5s', '1m 5s', '1h 1m', '1d 1h'])
})

test('print: env lines keep every value in a shell and in a .env parser', () => {
  const values = { URL: 'http://localhost:1/v1/x?a=b&c=d', ODD: `it's $HOME \`id\` "quoted" \\ !`, EMPTY: '' }
  const script = `${envLines(values)}printf '%s\\n' "$URL" "$ODD" "$EMPTY"`
  const shown = execFileSync('/bin/sh', ['-c', script], { encoding: 'utf8' })
  assert.deepEqual(shown.split('\n').slice(0, 3), Object.values(values))
  assert.equal(parseEnv(envLines(values))['URL'], values.URL)
})
