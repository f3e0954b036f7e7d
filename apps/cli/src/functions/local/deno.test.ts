import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Failure } from '../../failure.ts'
import { denoProgram, findDeno } from './deno.ts'

function failureOf(platform: string): Failure {
  try {
    denoProgram(platform)
  } catch (error) {
    assert.ok(error instanceof Failure)
    return error
  }
  return assert.fail(`${platform} has a program`)
}

test('functions serve: a missing Deno fails with a suggestion', () => {
  assert.match(failureOf('sunos-x64').message, /no Deno for sunos-x64/)
  const other = process.platform === 'darwin' ? 'linux-x64' : 'darwin-x64'
  assert.match(failureOf(other).message, /is not installed/)
  assert.match(failureOf(other).suggestion!, /npm ci/)
})

test('functions serve: Deno gets its settings from the environment, and no token', () => {
  const { env, certificates } = findDeno({
    HOME: '/home/ann',
    DENO_DIR: '/cache',
    https_proxy: 'http://proxy',
    PLATFORM_TOKEN: 'secret',
    NODE_EXTRA_CA_CERTS: '/ca.pem',
  })
  const { NO_COLOR, DENO_NO_UPDATE_CHECK, DENO_NO_PACKAGE_JSON, ...passedOn } = env
  assert.deepEqual(passedOn, { HOME: '/home/ann', DENO_DIR: '/cache', https_proxy: 'http://proxy' })
  assert.equal(certificates, '/ca.pem')
})
