// nginx serving the plain files of a directory, where it is installed.
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { StagedServer } from './stage.ts'

const startTimeoutMs = 10_000

/** Undefined if it is not installed. Its CPU includes its child processes. */
export async function startNginx(
  directory: string,
  workDirectory: string,
): Promise<StagedServer | undefined> {
  if (spawnSync('nginx', ['-v']).status !== 0) return
  const port = await freePort()
  writeFileSync(`${workDirectory}/nginx.conf`, settings(directory, workDirectory, port))
  const child = spawn('nginx', ['-e', 'stderr', '-c', `${workDirectory}/nginx.conf`], { stdio: 'ignore' })
  const url = `http://127.0.0.1:${port}`
  const until = performance.now() + startTimeoutMs
  while (!(await fetch(url).catch(() => undefined))) {
    if (child.exitCode !== null || performance.now() > until) throw new Error('nginx did not start')
    await sleep(20)
  }
  const stop = async () => {
    const exited = once(child, 'exit')
    child.kill('SIGTERM')
    await exited
  }
  return { pid: child.pid!, url, stop }
}

const settings = (directory: string, workDirectory: string, port: number) => `
daemon off;
worker_processes 1;
pid ${workDirectory}/nginx.pid;
error_log stderr crit;
${process.getuid!() === 0 ? 'user root;' : ''}
events {}
http {
  access_log off;
  sendfile on;
  tcp_nopush on;
  keepalive_requests 1000000;
  client_body_temp_path ${workDirectory}/body;
  proxy_temp_path ${workDirectory}/proxy;
  fastcgi_temp_path ${workDirectory}/fastcgi;
  uwsgi_temp_path ${workDirectory}/uwsgi;
  scgi_temp_path ${workDirectory}/scgi;
  server {
    listen 127.0.0.1:${port};
    root ${directory};
  }
}
`

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as { port: number }
  server.close()
  await once(server, 'close')
  return port
}
