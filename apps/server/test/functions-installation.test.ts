// The installation of npm packages is limited: a registry that does not answer, and a package that is too large.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import fs from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { DenoStopped, runDeno } from '#src/services/functions/deploy/deno-command.ts'
import { installPackages } from '#src/services/functions/deploy/packages.ts'
import { functionDirs, locateFunctions } from '#src/services/functions/place.ts'
import { saying } from '../../../conformance/functions.ts'
import { eventually } from './eventually.ts'
import { startFunctionsPlatform } from './functions-platform.ts'

/** Installations that this process has started and that have not ended. */
function installsRunning(): string[] {
  const { stdout } = spawnSync('ps', ['-o', 'args=', '--ppid', String(process.pid)], { encoding: 'utf8' })
  return stdout.split('\n').filter(line => /\bdeno install\b/.test(line))
}

test('installation: one that writes too much is ended', async () => {
  const directory = fs.mkdtempSync(join(tmpdir(), 'plinth-large-'))
  try {
    const run = runDeno({
      program: 'sleep',
      args: ['100'],
      directory,
      user: undefined,
      timeoutMs: 60_000,
      maxOutputBytes: 1000,
      signal: new AbortController().signal,
      isTooLarge: async () => true,
    })
    await assert.rejects(run, error => error instanceof DenoStopped && error.reason === 'disk')
  } finally {
    fs.rmSync(directory, { recursive: true, force: true })
  }
})

test('installation: a registry that never answers delays no other project and not the end of the platform', async () => {
  let asked = 0
  const silent = createServer(() => void asked++)
  await new Promise<void>(resolve => silent.listen(0, '127.0.0.1', resolve))
  const node = await startFunctionsPlatform({
    PLATFORM_NPM_REGISTRY: `http://127.0.0.1:${(silent.address() as AddressInfo).port}/`,
    PLATFORM_SHUTDOWN_GRACE_MS: '200',
  })
  const waiting: Promise<unknown>[] = []
  let installing: string[]
  try {
    const [own, other] = [await node.createProject(), await node.createProject()]
    await own.deploy('lasting', saying('before'))
    waiting.push(own.manage('PUT', '/lasting', { code: `import 'npm:anything'` }).catch(() => {}))
    await eventually(() => asked > 0, 'the registry is asked')
    await other.deploy('quick', saying('quick'))
    assert.equal((await other.call('quick')).text, 'quick')
    assert.equal((await own.call('lasting')).text, 'before')
  } finally {
    await node.stop()
    installing = installsRunning()
    silent.closeAllConnections()
    silent.close()
    await Promise.all(waiting)
  }
  assert.deepEqual(installing, [], 'an installation ends with the platform')
})

test('installation: one that takes too long is ended, with an error that names the registry', async () => {
  const silent = createServer(() => {})
  await new Promise<void>(resolve => silent.listen(0, '127.0.0.1', resolve))
  const dataDir = fs.mkdtempSync(join(tmpdir(), 'plinth-silent-'))
  const { deno, stagingDir } = locateFunctions(dataDir)
  try {
    const installation = installPackages({
      deno: await deno(),
      user: undefined,
      directory: stagingDir,
      wanted: { anything: 'npm:anything@1' },
      registry: {
        url: `http://127.0.0.1:${(silent.address() as AddressInfo).port}/`,
        certificates: undefined,
      },
      signal: new AbortController().signal,
      timeoutMs: 500,
    })
    await assert.rejects(installation, {
      code: 'registry_unreachable',
      status: 502,
      message: /no answer in 0.5 s/,
    })
  } finally {
    silent.closeAllConnections()
    silent.close()
    for (const path of [...Object.values(functionDirs(dataDir)), dataDir])
      fs.rmSync(path, { recursive: true, force: true })
  }
})
