#!/usr/bin/env node
// Plain JavaScript for any Node version. It finds the Node that runs the TypeScript in ../src.
import { existsSync, realpathSync } from 'node:fs'
// The default import, because Node 20 lacks `enableCompileCache` and a named import would fail at link time.
import nodeModule from 'node:module'
import { homedir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const wanted = 24
const modules = nodeModules(dirname(realpathSync(fileURLToPath(import.meta.url))))

if (Number(process.versions.node.split('.')[0]) >= wanted) {
  enableCache()
  const { main } = await import('../src/main.ts')
  await main(process.argv.slice(2))
} else {
  await runWithNewerNode(modules && join(modules, '.bin', 'node'))
}

/** Caches compiled code. Not in the shared /tmp, the default of Node, because others could place code there. */
function enableCache() {
  const isEnabled = modules && nodeModule.enableCompileCache(join(modules, '.cache', 'plinth')).status > 0
  if (!isEnabled) nodeModule.enableCompileCache(join(homedir(), '.cache', 'plinth'))
}

/** The nearest node_modules upwards that contains a Node, otherwise the nearest one. */
function nodeModules(from) {
  let nearest
  for (let dir = from; ; dir = dirname(dir)) {
    const candidate = join(dir, 'node_modules')
    if (existsSync(join(candidate, '.bin', 'node'))) return candidate
    if (!nearest && existsSync(candidate)) nearest = candidate
    if (dir === dirname(dir)) return nearest
  }
}

async function runWithNewerNode(node) {
  if (!node || !existsSync(node) || realpathSync(node) === realpathSync(process.execPath)) {
    process.stderr.write(
      `plinth needs Node ${wanted} or newer and this is ${process.version}. ` +
        'Run npm ci in the repository, which installs one on Linux, or install it from https://nodejs.org.\n',
    )
    process.exitCode = 1
    return
  }
  const { spawn } = await import('node:child_process')
  const child = spawn(node, process.argv.slice(1), { stdio: 'inherit' })
  const signals = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT']
  for (const signal of signals) process.on(signal, () => child.kill(signal))
  child.on('error', error => {
    process.stderr.write(`plinth could not run ${node}: ${error.message}\n`)
    process.exitCode = 1
  })
  child.on('exit', (code, signal) => {
    for (const each of signals) process.removeAllListeners(each)
    if (signal) process.kill(process.pid, signal)
    else process.exitCode = code ?? 1
  })
}
