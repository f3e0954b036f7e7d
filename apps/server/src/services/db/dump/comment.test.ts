import assert from 'node:assert/strict'
import { test } from 'node:test'
import { atOnce } from '#src/kernel/slices.ts'
import { scriptFrom } from './schema.ts'

test('comments: a name cannot end the comment that it is in', () => {
  for (const character of ['\n', '\r', '\r\n', '\0', '\v', '\f', '\u0085', '\u2028', '\u2029']) {
    const [, comment] = atOnce(
      scriptFrom([], [`collation public."x${character}drop schema public cascade; --"`]),
    )
    assert.match(comment!, /^\n-- Not in here, to be made by hand: [^\p{Cc}\p{Zl}\p{Zp}]+$/u)
  }
  const [, comment] = atOnce(scriptFrom([], ['collation public."a\nb"']))
  assert.equal(comment, '\n-- Not in here, to be made by hand: collation public."a\\u000ab"')
})
