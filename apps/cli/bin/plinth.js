#!/usr/bin/env node
// Plain JavaScript that any Node understands: it only finds the Node that runs the TypeScript in ../src.
import { existsSync, realpathSync } from 'node:fs'
// Whole, because Node 20 does not know the name we want from it and would not even begin.
import nodeModule from 'node:module'
import { homedir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const wanted = 24
const modules = nodeModules(dirname(realpathSync(fileURLToPath(import.meta.url))))

if (Number(process.versions.node.split('.')[0]) >= wanted) {
  keepCompiled()
  const { main } = await import('../src/main.ts')
  await main(process.argv.slice(2))
} else {
  await handOver(modules && join(modules, '.bin', 'node'))
}

/** Types are stripped and code is compiled once. Not in the shared /tmp, Node's default: others could plant code there. */
function keepCompiled() {
  const isKept = modules && nodeModule.enableCompileCache(join(modules, '.cache', 'plinth')).status > 0
  if (!isKept) nodeModule.enableCompileCache(join(homedir(), '.cache', 'plinth'))
}

/** The nearest node_modules upwards that holds a Node, else the nearest one at all. */
function nodeModules(from) {
  let nearest
  for (let dir = from; ; dir = dirname(dir)) {
    const candidate = join(dir, 'node_modules')
    if (existsSync(join(candidate, '.bin', 'node'))) return candidate
    if (!nearest && existsSync(candidate)) nearest = candidate
    if (dir === dirname(dir)) return nearest
  }
}

async function handOver(node) {
  if (!node || !existsSync(node) || realpathSync(node) === realpathSync(process.execPath)) {
    process.stderr.write(
      `plinth needs Node ${wanted} or newer and this is ${process.version}. ` +
        'Run npm ci in the repository, which brings one on Linux, or install it from https://nodejs.org.\n',
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
