import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Failure } from '../failure.ts'
import { addressOf, keyFor, parseAddress, parseRemote, withBucket } from './address.ts'

function refusal(work: () => unknown): Failure {
  try {
    work()
  } catch (error) {
    assert.ok(error instanceof Failure, String(error))
    return error
  }
  return assert.fail('it was accepted')
}

test('storage address: ss:///bucket/path is remote, a slash at the end is a folder, anything else is local', () => {
  for (const [text, bucket, path, endsInSlash] of [
    ['ss:///', '', '', false],
    ['ss:///media', 'media', '', false],
    ['ss:///media/', 'media', '', true],
    ['SS:///media/a b/c.png', 'media', 'a b/c.png', false],
    ['ss:///media/docs/', 'media', 'docs', true],
    // Addresses are not percent-decoded.
    ['ss:///media/what?.txt', 'media', 'what?.txt', false],
  ] as const)
    assert.deepEqual(parseAddress(text), { bucket, path, endsInSlash }, text)
  for (const local of ['', '.', 'docs/a.txt', '/tmp/ss:///x', './ss:x', 's3://bucket/x', 'ssh'])
    assert.equal(parseAddress(local), null, local)
})

test('storage address: an invalid address fails with the right syntax', () => {
  for (const [text, fix] of [
    ['ss://media/a.txt', /three slashes: ss:\/\/\/media\/a\.txt$/],
    ['ss:media', /ss:\/\/\/media$/],
    ['ss:', /ss:\/\/\/bucket\/path$/],
    ['ss:////media', /Remove empty parts/],
    ['ss:///media//a', /Remove empty parts/],
    ['ss:///media/../other', /Remove empty parts/],
    ['ss:///media/./a', /Remove empty parts/],
    ['ss:///..', /Remove empty parts/],
  ] as const) {
    const { code, suggestion } = refusal(() => parseAddress(text))
    assert.equal(code, 'address_invalid', text)
    assert.match(suggestion!, fix, text)
  }
  assert.match(refusal(() => parseRemote('./media/a.txt')).suggestion!, /ss:\/\/\/media\/a\.txt$/)
  assert.match(refusal(() => withBucket(parseRemote('ss:///'))).suggestion!, /Name the bucket/)
})

test('storage address: formatting and parsing match', () => {
  for (const text of ['ss:///media', 'ss:///media/docs/a b.txt']) {
    const { bucket, path } = parseRemote(text)
    assert.equal(addressOf(bucket, path), text)
  }
})

test('storage address: a file keeps its name in a bucket or folder, and otherwise takes the given one', () => {
  for (const [to, key] of [
    ['ss:///media', 'logo.png'],
    ['ss:///media/', 'logo.png'],
    ['ss:///media/docs/', 'docs/logo.png'],
    ['ss:///media/docs', 'docs'],
    ['ss:///media/docs/other.png', 'docs/other.png'],
  ] as const)
    assert.equal(keyFor(parseRemote(to), 'logo.png'), key, to)
})
