// Commands for edge functions.
import type { Command, Flag, Operand } from '../command.ts'

const name: Operand = { name: 'name', summary: 'the name of the function' }
const noVerifyJwt = (summary: string): Flag => ({ name: 'no-verify-jwt', summary })

const local: readonly Command[] = [
  {
    path: 'functions new',
    summary: 'Create the folder of a function with an example',
    operands: [name],
    examples: ['plinth functions new hello'],
    load: () => import('../commands/functions.ts').then(module => module.create),
  },
  {
    path: 'functions serve',
    summary: 'Run the functions of this directory on this machine, and load them again when a file changes',
    operands: [{ name: 'name', summary: 'only this function; default all', isOptional: true }],
    flags: [
      {
        name: 'path',
        value: 'folder',
        summary: 'The folder with the folders of functions; default functions or supabase/functions',
      },
      {
        name: 'env-file',
        value: 'file',
        summary: 'The secrets, as NAME=value lines; default .env in the folder of functions',
      },
      { name: 'port', value: 'port', summary: 'The port on 127.0.0.1; default 8888, 0 takes a free one' },
      noVerifyJwt('Calls need no credential'),
    ],
    examples: [
      'plinth functions serve',
      'plinth functions serve hello --env-file .env.local --no-verify-jwt',
    ],
    load: () => import('../commands/functions-serve.ts').then(module => module.serve),
  },
]

const deployed: readonly Command[] = [
  {
    path: 'functions list',
    summary: 'List the functions of a project',
    load: () => import('../commands/functions.ts').then(module => module.list),
  },
  {
    path: 'functions deploy',
    summary: 'Create a function from a folder or a file, or deploy a new version of it',
    operands: [name],
    flags: [
      {
        name: 'path',
        value: 'folder or file',
        summary: 'The code; default functions/<name> or supabase/functions/<name>',
      },
      {
        name: 'entrypoint',
        value: 'path',
        summary: 'The file with the handler, relative to the folder; default index.ts or index.js',
      },
      noVerifyJwt('Calls need no credential'),
      { name: 'verify-jwt', summary: 'Calls need a signed-in user or the service_role key, the default' },
    ],
    examples: [
      'plinth functions deploy hello',
      'plinth functions deploy hook --path hook.ts --no-verify-jwt',
      'plinth functions deploy hello --path functions --entrypoint hello/index.ts',
    ],
    load: () => import('../commands/functions-deploy.ts').then(module => module.deploy),
  },
  {
    path: 'functions download',
    summary: 'Write the files of a function',
    operands: [name],
    flags: [
      {
        name: 'path',
        value: 'folder',
        summary: 'Where; default functions/<name> or supabase/functions/<name>',
      },
      { name: 'force', summary: 'Overwrite existing files' },
    ],
    examples: ['plinth functions download hello --path /tmp/hello'],
    load: () => import('../commands/functions-download.ts').then(module => module.download),
  },
  {
    path: 'functions invoke',
    summary: 'Call a function and print the body of its answer; ends with 1 for a status of 400 or more',
    operands: [name],
    flags: [
      {
        name: 'method',
        short: 'X',
        value: 'method',
        choices: ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'],
        summary: 'The method; default POST',
      },
      {
        name: 'body',
        value: 'text',
        summary: 'The body, @<file> for that of a file, or @- for standard input',
      },
      {
        name: 'header',
        short: 'H',
        value: 'Name: value',
        summary: 'A header; may be given several times',
        isRepeatable: true,
      },
      {
        name: 'path',
        value: 'path',
        summary: 'What follows the name of the function, such as /items?limit=2',
      },
    ],
    examples: [
      `plinth functions invoke hello --body '{"name":"Ann"}'`,
      `plinth functions invoke hello -X GET --path /items -H 'Accept: text/plain'`,
    ],
    printsText: true,
    load: () => import('../commands/functions-invoke.ts').then(module => module.invoke),
  },
  {
    path: 'functions logs',
    summary: 'Print the latest lines of the log of a function; with --follow until Ctrl-C',
    operands: [name],
    flags: [
      {
        name: 'follow',
        short: 'f',
        summary: 'Print new lines until Ctrl-C; into a pipe as one line of JSON each',
      },
      { name: 'limit', value: 'lines', summary: 'How many lines, at most 1000; default 100' },
      {
        name: 'level',
        value: 'level',
        choices: ['debug', 'info', 'log', 'warn', 'error'],
        summary: 'Only lines of this level: debug, info, log, warn or error',
      },
    ],
    examples: [
      'plinth functions logs hello --follow',
      'plinth functions logs hello --level error --limit 10',
    ],
    load: () => import('../commands/functions-logs.ts').then(module => module.logs),
  },
  {
    path: 'functions rollback',
    summary: 'Deploy a new version of a function with the code of a previous one',
    operands: [name, { name: 'version', summary: 'the number of the previous version' }],
    examples: ['plinth functions rollback hello 3'],
    load: () => import('../commands/functions.ts').then(module => module.rollback),
  },
  {
    path: 'functions delete',
    summary: 'Delete a function with its versions and logs',
    operands: [name],
    load: () => import('../commands/functions.ts').then(module => module.remove),
  },
]

export const functionsCommands: readonly Command[] = [...local, ...deployed]
