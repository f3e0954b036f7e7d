import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createMatcher } from './glob.ts'

const matches = (pattern: string, key: string) => createMatcher(pattern).matches(key)

const cases: [pattern: string, matching: string[], others: string[]][] = [
  ['*', ['', 'a', '\0', 'a*b', '😀'], []],
  ['', [''], ['a']],
  ['a', ['a'], ['', 'b', 'ab', 'A']],
  ['a*', ['a', 'ab', 'a*'], ['', 'ba']],
  ['*a', ['a', 'ba', 'aa'], ['', 'ab']],
  ['*a*b*', ['ab', 'xaybz', 'aab'], ['ba', 'a', 'b']],
  ['a**b', ['ab', 'axb'], ['a', 'ba']],
  ['?', ['a', '*', '😀', '\0', '日'], ['', 'ab']],
  ['a?c', ['abc', 'a?c', 'a😀c'], ['ac', 'abbc']],
  ['[abc]', ['a', 'b', 'c'], ['d', '', 'ab', '[abc]']],
  ['[a-c]x', ['ax', 'bx', 'cx'], ['dx', '-x']],
  ['[c-a]x', ['ax', 'bx', 'cx'], ['dx']],
  ['[^a]', ['b', '^', '😀'], ['a', '']],
  ['[a^]', ['a', '^'], ['b']],
  ['[\\]]', [']'], ['\\', 'a']],
  ['[\\^a]', ['^', 'a'], ['\\', 'b']],
  ['[😀-😂]', ['😀', '😁', '😂'], ['😃', 'a']],
  ['[', [], ['[', 'a']],
  ['[ab', ['a', 'b'], ['[ab', 'c']],
  ['[]', [], ['', ']', '[]']],
  ['[^]', ['a', ']'], ['']],
  ['\\*', ['*'], ['a', '\\*', '']],
  ['\\?', ['?'], ['a']],
  ['\\[a\\]', ['[a]'], ['a']],
  ['\\\\', ['\\'], ['\\\\']],
  ['\\', ['\\'], ['']],
  ['a:*:c', ['a:b:c', 'a::c'], ['a:c']],
  ['e\u0301', ['e\u0301'], ['\u00e9']],
]
for (const [pattern, matching, others] of cases)
  test(`glob: pattern ${JSON.stringify(pattern)}`, () => {
    for (const key of matching) assert.ok(matches(pattern, key), `matches ${JSON.stringify(key)}`)
    for (const key of others) assert.ok(!matches(pattern, key), `does not match ${JSON.stringify(key)}`)
  })

/** A naive matcher that backtracks. */
function isNaiveMatch(pattern: string[], key: string[]): boolean {
  const [first, ...rest] = pattern
  if (first === undefined) return key.length === 0
  if (first === '*') return key.some((_, at) => isNaiveMatch(rest, key.slice(at))) || isNaiveMatch(rest, [])
  return key.length > 0 && (first === '?' || first === key[0]) && isNaiveMatch(rest, key.slice(1))
}

test('glob: random patterns match the same keys as a backtracking matcher', () => {
  const draw = (letters: string, length: number) =>
    Array.from({ length: Math.floor(Math.random() * length) }, () => {
      const all = [...letters]
      return all[Math.floor(Math.random() * all.length)]!
    })
  for (let run = 0; run < 5000; run++) {
    const pattern = draw('ab😀**?', 8)
    const key = draw('ab😀', 10)
    assert.equal(
      matches(pattern.join(''), key.join('')),
      isNaiveMatch(pattern, key),
      JSON.stringify([pattern.join(''), key.join('')]),
    )
  }
})

test('glob: patterns of every length match alike', () => {
  for (let length = 25; length < 100; length++) {
    const head = 'x'.repeat(length)
    for (const [pattern, key, is] of [
      ['a*b', 'a--b', true],
      ['a*b', 'a--', false],
      ['*b?', 'bbb', true],
      ['[^b]*', 'a', true],
      ['[^b]*', 'b', false],
      ['', '', true],
      ['', 'z', false],
    ] as const) {
      assert.equal(matches(head + pattern, head + key), is, `${length} and ${pattern}`)
      assert.equal(matches(`*${head}${pattern}`, `y${head}${key}`), is, `* ${length} and ${pattern}`)
    }
  }
})

test('glob: matching is linear in the length of the key', () => {
  const key = 'a'.repeat(2048)
  const letters = Array.from({ length: 1000 }, (_, index) => String.fromCodePoint(0x4e00 + 2 * index)).join(
    '',
  )
  for (const pattern of [
    `*${'a'.repeat(1000)}b`,
    `${'*a'.repeat(511)}b`,
    `${'*a'.repeat(500)}*b`,
    `${'*?'.repeat(511)}b`,
    `*${'[a-z]'.repeat(200)}b`,
    `*[${letters}]q`,
    `*${'?a'.repeat(500)}q`,
    `*${'[a]'.repeat(341)}q`,
  ]) {
    const matcher = createMatcher(pattern)
    assert.equal(matcher.matches(key), false)
    const wordsOfPattern = Math.ceil((pattern.length + 1) / 32)
    assert.ok(matcher.steps <= key.length * wordsOfPattern + pattern.length, `${matcher.steps} steps`)
  }
})
