// SPDX-License-Identifier: Apache-2.0
import { render } from 'preact';
import { App } from './store/app';
import './styles/base.css';
import './styles/layout.css';
import './styles/messages.css';
import './styles/markdown.css';
import './styles/forms.css';
import { Page } from './ui/page';

const root = document.getElementById('app');
if (!root) throw new Error('index.html has no element with the id "app"');
render(<Page app={new App()} />, root);
