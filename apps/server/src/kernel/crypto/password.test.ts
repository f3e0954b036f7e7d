import assert from 'node:assert/strict'
import { test } from 'node:test'
import { hash } from '@node-rs/bcrypt'
import { Refusal } from '#src/kernel/errors.ts'
import { createHashingLimiter, hashingConcurrency, maxWaitingHashes } from './hashing-limiter.ts'
import { createPasswords, createUserPasswords, isAffordableHash } from './password.ts'

test('a password verifies against its own hash and no other', async () => {
  const passwords = createPasswords(createHashingLimiter())
  const hash = await passwords.hash('correct horse')
  assert.match(hash, /^\$argon2id\$/)
  assert.equal(await passwords.verify('correct horse', hash), true)
  assert.equal(await passwords.verify('wrong horse', hash), false)
})

test('without a stored hash no password verifies, not even that of the decoy hash', async () => {
  const passwords = createPasswords(createHashingLimiter())
  assert.equal(await passwords.verify('a password nobody has', undefined), false)
})

test('hashes beyond the queue limit are rejected with hashing_busy', async () => {
  const passwords = createPasswords(createHashingLimiter())
  const taken = hashingConcurrency + maxWaitingHashes
  const results = await Promise.allSettled(Array.from({ length: taken + 14 }, () => passwords.hash('x')))
  const refused = results.filter(({ status }) => status === 'rejected')
  assert.equal(refused.length, 14)
  for (const each of refused) {
    const { reason } = each as PromiseRejectedResult
    assert.ok(reason instanceof Refusal)
    assert.equal(reason.code, 'hashing_busy')
  }
  assert.match(await passwords.hash('x'), /^\$argon2id\$/)
})

test('many waiting hashes of one project delay another project by one hash only', async () => {
  const users = createUserPasswords(createHashingLimiter(), 4)
  const done: string[] = []
  const hash = async (project: string) => {
    await users(project).hash('x')
    done.push(project)
  }
  const flood = Array.from({ length: hashingConcurrency + 20 }, () => hash('flooded'))
  await Promise.all([...flood, hash('quiet')])
  assert.ok(done.indexOf('quiet') <= hashingConcurrency * 3, done.join(' '))
})

test('users’ passwords are hashed with bcrypt; imported bcrypt hashes up to cost 14 and Argon2 hashes verify', async () => {
  const users = createUserPasswords(createHashingLimiter())('p')
  const own = await users.hash('correct horse')
  assert.match(own, /^\$2b\$10\$/)
  // Of the same password. The second one is not computed here, because that takes more than a second.
  const cheap = (await hash('correct horse', 4)).replace('$2b$', '$2y$')
  const expensive = '$2y$14$z2qYNuQR2.wnMRdZNCBovuMQ2QstLoJs8nbdGNlalKOzbbOD0a0Wi'
  assert.equal(await users.verify('correct horse', cheap), true)
  assert.equal(await users.verify('wrong horse', cheap), false)
  assert.equal(await users.verify('correct horse', expensive), true)
  const operators = createPasswords(createHashingLimiter())
  assert.equal(await users.verify('x', await operators.hash('x')), true)
  assert.equal(await users.verify('x', 'not a hash'), false)
  assert.equal(await users.verify('x', ''), false)
})

test('a hash with expensive parameters is not computed', async () => {
  const tail = '.'.repeat(53)
  const argon = (m: number, t: number, p: number) =>
    `$argon2id$v=19$m=${m},t=${t},p=${p}$c2FsdHNhbHRzYWx0$${'A'.repeat(43)}`
  for (const taken of [`$2b$04$${tail}`, `$2y$14$${tail}`, argon(19_456, 2, 1), argon(65_536, 10, 4)])
    assert.equal(isAffordableHash(taken), true, taken)
  for (const refused of [
    `$2b$15$${tail}`,
    `$2b$31$${tail}`,
    `$2b$03$${tail}`,
    argon(65_537, 1, 1),
    argon(16_777_216, 1, 1),
    argon(64, 11, 1),
    argon(64, 1, 5),
    argon(64, 1, 1).replace('v=19', 'v=16'),
    'plain',
    '',
  ])
    assert.equal(isAffordableHash(refused), false, refused)
  // Cost 31 would take days.
  assert.equal(await createUserPasswords(createHashingLimiter())('p').verify('x', `$2b$31$${tail}`), false)
})
