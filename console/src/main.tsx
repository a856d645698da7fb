import { render } from "preact";
import { App } from "./app";
import "./theme.css";
import "./waterfall.css";

render(<App />, document.getElementById("app")!);
