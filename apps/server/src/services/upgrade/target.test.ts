import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Refusal } from '#src/kernel/errors.ts'
import { checkTarget, isNewer } from './target.ts'

const codeOf = (target: string, installed: string): string | undefined => {
  try {
    checkTarget(target, installed)
    return
  } catch (error) {
    assert.ok(error instanceof Refusal)
    return error.code
  }
}

test('upgrade target: only the installed version can be the target', () => {
  assert.doesNotThrow(() => checkTarget(undefined, '1.2.3'))
  for (const same of ['1.2.3', 'v1.2.3', '1.2.3+build.5']) assert.equal(codeOf(same, '1.2.3'), undefined)
  for (const older of ['1.2.2', '1.1.9', '0.9.10', '1.2.3-beta', '1.2.3-rc.1'])
    assert.equal(codeOf(older, '1.2.3'), 'invalid_target', older)
  for (const newer of ['1.2.4', '1.10.0', '2.0.0-alpha'])
    assert.equal(codeOf(newer, '1.2.3'), 'upgrade_not_installed', newer)
})

test('upgrade target: pre-releases are ordered by their parts', () => {
  const inOrder = ['1.0.0-1', '1.0.0-2', '1.0.0-11', '1.0.0-alpha', '1.0.0-alpha.1', '1.0.0-beta', '1.0.0']
  for (const [place, version] of inOrder.entries())
    for (const older of inOrder.slice(0, place)) {
      assert.equal(codeOf(older, version), 'invalid_target', `${older} ${version}`)
      assert.equal(codeOf(version, older), 'upgrade_not_installed', `${version} ${older}`)
    }
})

test('upgrade target: other texts are rejected', () => {
  for (const wrong of [
    '',
    'latest',
    '1',
    '1.2',
    '1.2.3.4',
    '01.2.3',
    '1.2.-3',
    '1.2.3-',
    ' 1.2.3',
    '9'.repeat(99),
  ])
    assert.equal(codeOf(wrong, '1.2.3'), 'invalid_target', wrong)
})

test('upgrade target: a release that is not a semantic version is not newer', () => {
  assert.equal(isNewer('1.2.4', '1.2.3'), true)
  for (const other of ['1.2.3', '1.2.3-rc.1', '0.9.0', 'next']) assert.equal(isNewer(other, '1.2.3'), false)
})
