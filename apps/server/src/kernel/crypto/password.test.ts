import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Refusal } from '#src/kernel/errors.ts'
import { createPasswords } from './password.ts'

test('a password verifies against its own hash and no other', async () => {
  const passwords = createPasswords()
  const hash = await passwords.hash('correct horse')
  assert.match(hash, /^\$argon2id\$/)
  assert.equal(await passwords.verify('correct horse', hash), true)
  assert.equal(await passwords.verify('wrong horse', hash), false)
})

test('without a stored hash nothing verifies, not even the decoy', async () => {
  const passwords = createPasswords()
  assert.equal(await passwords.verify('a password nobody has', undefined), false)
})

test('a flood is refused past the bound and served up to it', async () => {
  const passwords = createPasswords()
  const results = await Promise.allSettled(Array.from({ length: 80 }, () => passwords.hash('x')))
  const refused = results.filter(({ status }) => status === 'rejected')
  assert.equal(refused.length, 80 - 66)
  for (const each of refused) {
    const { reason } = each as PromiseRejectedResult
    assert.ok(reason instanceof Refusal)
    assert.equal(reason.code, 'hashing_busy')
  }
  assert.match(await passwords.hash('x'), /^\$argon2id\$/)
})
