// Commands for the working directory and the shell.
import type { Command } from '../command.ts'

export const directoryCommands: readonly Command[] = [
  {
    path: 'config set',
    summary: 'Store the url or the project in .plinth/link.json',
    operands: [
      { name: 'key', summary: 'url or project', choices: ['url', 'project'] },
      { name: 'value', summary: 'what to store' },
    ],
    load: () => import('../commands/config.ts').then(module => module.set),
  },
  {
    path: 'config get',
    summary: 'Print the url or the project that commands use',
    operands: [{ name: 'key', summary: 'url or project', choices: ['url', 'project'], isOptional: true }],
    load: () => import('../commands/config.ts').then(module => module.get),
  },
  {
    path: 'config show',
    summary: 'Show every setting of the command line',
    flags: [{ name: 'origin', summary: 'Show where each value comes from' }],
    load: () => import('../commands/config.ts').then(module => module.show),
  },
  {
    path: 'link',
    summary: 'Link this directory to a platform',
    operands: [{ name: 'target', summary: 'a URL, or the name of an environment in plinth.json' }],
    examples: ['plinth link https://plinth.example.com --project shop'],
    load: () => import('../commands/config.ts').then(module => module.link),
  },
  {
    path: 'completion',
    summary: 'Print completion for a shell',
    operands: [{ name: 'shell', summary: 'bash, zsh or fish', choices: ['bash', 'zsh', 'fish'] }],
    examples: ['source <(plinth completion bash)'],
    printsText: true,
    load: () => import('../commands/completion.ts').then(module => module.completion),
  },
  {
    path: 'completion words',
    summary: 'Print the words that may come next, for the completion scripts',
    operands: [{ name: 'words', summary: 'the words so far', isOptional: true, isRest: true }],
    isHidden: true,
    printsText: true,
    load: () => import('../commands/completion.ts').then(module => module.words),
  },
]
